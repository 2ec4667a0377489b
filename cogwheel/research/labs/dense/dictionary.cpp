// Attention as a look-up: a query finds the key most like it and returns its value. What softmax returns by its
// temperature, beside the hard look-up; and what a causal row cannot find, because it stands after.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"

namespace cogwheel::labs::dictionary {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"words", {8}, {3, 64}, "of the small dictionary, each with a direction of its own"},
           {"temperatures", {10, 3, 1, 0.3, 0.1, 0.03, 0.01}, {1e-3, 1e3}, "of the softmax, falling", real, true},
           {"items", {64}, {2, 4096}, "of the random dictionaries"},
           {"width", {32}, {8, 1024}, "of their keys, random directions"},
           {"noise", {1.5}, {0, 10}, "length of what is added to a key to make a query of it", real},
           {"look_ups", {2000}, {10, 1000000}, "in random dictionaries"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  const std::vector<double>& temperatures = given.numbers("temperatures");
  for (std::size_t i = 1; i < temperatures.size(); ++i)
    if (!(temperatures[i] < temperatures[i - 1]))
      throw UsageError(expected_got("temperatures", "falling numbers", given.all()[1].text()));
}

struct SmallLookUp {
  double found = 0, best = 0, second = 0;  // the value, and the weights of the words that the query is made of
};

// Values are 0, 1, 2, …; the query is 0.7 of the key in the middle and 0.3 of that of word 2, or of word 0 of three.
SmallLookUp look_up(std::int64_t words, std::int64_t asked, std::int64_t also, double temperature) {
  const std::int64_t width = std::max<std::int64_t>(8, words);
  const at::Tensor keys = at::eye(width, at::kDouble).narrow(0, 0, words),
                   values = at::arange(words, at::kDouble).view({1, 1, words, 1});
  const at::Tensor query = (0.7 * keys[asked] + 0.3 * keys[also]).view({1, 1, 1, width}),
                   heads = keys.view({1, 1, words, width});
  ops::AttentionOptions options;
  options.scale = 1 / temperature;
  const at::Tensor weights = ops::attention_weights(query, heads, "softmax", options).flatten();
  return {ops::attention(query, heads, values, "softmax", options).item<double>(), weights[asked].item<double>(),
          weights[also].item<double>()};
}

struct RandomLookUps {
  double right_full = 0, right_causal = 0;  // shares in which the largest weight is that of the right item
  double before = 0;                        // share of right items that the causal row sees
  std::vector<double> error;  // by temperature: squared distance from the right value over that of the mean
};

RandomLookUps draw_look_ups(const LabParameters& given) {
  const std::int64_t items = given.whole("items"), width = given.whole("width"), count = given.whole("look_ups");
  const std::vector<double>& temperatures = given.numbers("temperatures");
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  RandomLookUps found{.error = std::vector<double>(temperatures.size())};
  double scale = 0;
  const auto unit = [](const at::Tensor& vectors) { return vectors / vectors.norm(2, -1, true); };
  for (std::int64_t done = 0; done < count; ++done) {
    const at::Tensor keys = unit(normal_tensor({items, width}, 1, draws)), values = normal_tensor({items}, 1, draws);
    const std::int64_t right = draws.below(items), place = draws.below(items);
    const at::Tensor query = keys[right] + given.number("noise") * unit(normal_tensor({1, width}, 1, draws))[0];
    const at::Tensor scores = at::matmul(keys, query);
    const auto hit = [&](const at::Tensor& seen) { return seen.argmax().item<std::int64_t>() == right ? 1.0 : 0.0; };
    found.right_full += hit(scores) / static_cast<double>(count);
    // The query stands at `place` and sees what stands there and before.
    found.before += (right <= place ? 1.0 : 0.0) / static_cast<double>(count);
    found.right_causal += hit(scores.narrow(0, 0, place + 1)) / static_cast<double>(count);
    const double truth = values[right].item<double>();
    scale += (values.mean() - truth).square().item<double>();
    for (std::size_t i = 0; i < temperatures.size(); ++i)
      found.error[i] += (at::dot(at::softmax(scores / temperatures[i], 0), values) - truth).square().item<double>();
  }
  for (double& each : found.error) each /= scale;
  return found;
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const std::int64_t words = given.whole("words"), asked = words / 2 + (words > 4 ? 1 : 0), also = words > 4 ? 2 : 0;
  const std::vector<double>& temperatures = given.numbers("temperatures");
  pages::TextTable table{
      "The small dictionary", {"temperature", "found", "weight of the word", "weight of the other"}, {}};
  pages::ChartSeries best{.name = "the word that is asked for", .x = temperatures, .y = {}},
      second{.name = "the other in the query", .x = temperatures, .y = {}};
  std::vector<double> found;
  double falls = 0;
  for (const double temperature : temperatures) {
    const SmallLookUp each = look_up(words, asked, also, temperature);
    falls += !best.y.empty() && each.best < best.y.back() ? 1 : 0;
    found.push_back(each.found), best.y.push_back(each.best), second.y.push_back(each.second);
    table.rows.push_back({fmt::format("{:g}", temperature), fmt::format("{:.6f}", each.found),
                          fmt::format("{:.6f}", each.best), fmt::format("{:.6f}", each.second)});
  }
  const RandomLookUps random = draw_look_ups(given);
  const auto least = std::min_element(random.error.begin(), random.error.end());
  const double coldest = temperatures.back(), mean = static_cast<double>(words - 1) / 2;
  // e^(−gap/T) of every other word, and values differ by at most words.
  const double reach = std::exp(-0.4 / coldest) * static_cast<double>(words * words) + 1e-12;
  return {
      .answer =
          fmt::format("The lower the temperature, the nearer softmax is to the hard look-up, which returns the value "
                      "of the most similar key. Of {} random items with noisy queries a row over all finds {:.0f} %, "
                      "a causal one {:.0f} %, for it sees only what stands before.",
                      given.whole("items"), 100 * random.right_full, 100 * random.right_causal),
      .findings = {{fmt::format("Value found at temperature {:g} (the hard look-up's)", coldest), follows, near,
                    static_cast<double>(asked), reach, found.back()},
                   {fmt::format("Value found at temperature {:g} (the mean of all values)", temperatures.front()), ours,
                    near, mean,
                    temperatures.front() >= 3 ? 0.1 * static_cast<double>(words) : static_cast<double>(words),
                    found.front()},
                   {"Temperatures at which the word's weight is less than at the one above", follows, near, 0, 0,
                    falls},
                   {"Random items: found by a row over all tokens", ours, above,
                    1 / static_cast<double>(given.whole("items")), 0, random.right_full},
                   {"Share of right items that stand before the query", nobody, shown, 0, 0, random.before},
                   {"Found by a causal row less found by a row over all (before and after)", direction, at_most, 0, 0,
                    random.right_causal - random.right_full},
                   {"Found by a causal row, over the share of right items that it sees", ours, near, random.right_full,
                    0.1, random.right_causal / random.before,
                    "A causal row finds as much of what it sees; fewer others may even make it more."},
                   {"Temperature at which the value found is nearest to the right one, noisy queries", nobody, shown, 0,
                    0, temperatures[static_cast<std::size_t>(least - random.error.begin())],
                    "With noise the hard look-up is not the best: it returns all of a wrong value."}},
      .charts = {{.title = "Weights of the small dictionary",
                  .x = {.title = "temperature", .logarithmic = true},
                  .y = {.title = "weight", .min = 0, .max = 1},
                  .series = {best, second}},
                 {.title = "Error of the value found, noisy queries",
                  .x = {.title = "temperature", .logarithmic = true},
                  .y = {.title = "squared error, of that of the mean of all values", .min = 0},
                  .series = {{.name = "softmax", .x = temperatures, .y = random.error}}}},
      .tables = {table},
      .assumptions = {
          {"Similar means a large product.",
           "Keys have length 1. The query of the small dictionary is 0.7 of one key and "
           "0.3 of another, orthogonal ones."},
          {"A row over all is a bidirectional one.",
           "The post compares it with a bidirectional recurrent network; the causal row is that of a language model."},
          {"Images are the same look-up.",
           "Patches take the place of words; what such a model learns is in docs/images.md."}}};
}

}  // namespace
}  // namespace cogwheel::labs::dictionary

namespace cogwheel::labs {
LabEntry dictionary_lab() {
  return {"dictionary",
          "A look-up that softens",
          "Does attention return the value of the key most like the query, from before and after?",
          dictionary::parameters(),
          dictionary::run,
          dictionary::check};
}
}  // namespace cogwheel::labs
