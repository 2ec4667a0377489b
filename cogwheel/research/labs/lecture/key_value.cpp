// A token serves as key and as value: x = r + c, with r to be found by and c to be given. With one
// vector for both, perfect attention gives r* + c*; a W_V that projects onto the contents gives c*. By a projector, and
// learned on a look-up.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lab_training.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"

namespace cogwheel::labs::key_value {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {32}, {4, 1024}, "d; one half for routing, the other for content"},
           {"items", {8}, {2, 1024}, "tokens to choose from"},
           {"draws", {200}, {1, 1000000}, "look-ups that are measured"},
           {"batch", {64}, {1, 65536}, "look-ups of a training step"},
           {"steps", {1500}, {1, 1000000}, "of training"},
           {"learning_rate", {0.01}, {0, 1, true}, "of the first step; it falls to 0 as a cosine", real},
           seeds_parameter(),
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

// Batches of look-ups: items x = r + c, the query r of one of them, and its c.
struct LookUps {
  at::Tensor routing, content;  // [B, items, d]
  at::Tensor query, answer;     // [B, d]
  at::Tensor target;            // [B]
  at::Tensor tokens() const { return routing + content; }
};

// `basis`: orthonormal columns, those of the first half span routing, the others content.
LookUps draw_look_ups(std::int64_t count, std::int64_t items, const at::Tensor& basis, Draws& draws) {
  const std::int64_t width = basis.size(0), half = width / 2;
  const auto in_span = [&](std::int64_t begin, std::int64_t end) {
    const double length = 1 / std::sqrt(static_cast<double>(end - begin));
    return at::matmul(normal_tensor({count, items, end - begin}, length, draws), basis.slice(1, begin, end).t());
  };
  LookUps look_ups{
      .routing = in_span(0, half), .content = in_span(half, width), .query = {}, .answer = {}, .target = {}};
  look_ups.target = at::empty({count}, at::kLong);
  for (std::int64_t index = 0; index < count; ++index)
    look_ups.target.mutable_data_ptr<std::int64_t>()[index] = draws.below(items);
  const at::Tensor rows = at::arange(count, at::kLong) * items + look_ups.target;
  look_ups.query = look_ups.routing.reshape({-1, width}).index_select(0, rows);
  look_ups.answer = look_ups.content.reshape({-1, width}).index_select(0, rows);
  return look_ups;
}

double mean_length(const at::Tensor& vectors) { return vectors.norm(2, -1).mean().item<double>(); }

struct Weights {
  at::Tensor query, key, value;  // [d, d], applied from the right; value is key where one vector serves both
};

at::Tensor attend(const Weights& weights, const LookUps& look_ups) {
  const at::Tensor tokens = look_ups.tokens();
  const at::Tensor scores =
      at::matmul(at::matmul(tokens, weights.key), at::matmul(look_ups.query, weights.query).unsqueeze(-1)).squeeze(-1);
  const at::Tensor attention = at::softmax(scores / std::sqrt(static_cast<double>(tokens.size(-1))), -1);
  return at::matmul(attention.unsqueeze(1), at::matmul(tokens, weights.value)).squeeze(1);
}

// The mean squared error of an answer, over the mean square of answers.
at::Tensor relative_error(const at::Tensor& output, const at::Tensor& answer) {
  return (output - answer).square().sum() / answer.square().sum();
}

struct Learned {
  Weights weights;
  double error = 0;  // of fresh look-ups
  pages::ChartSeries curve;
};

// `shared`: one matrix for keys and values.
Learned learn(const LabParameters& given, const at::Tensor& basis, bool shared, const std::string& name,
              std::uint64_t seed) {
  Draws draws(seed, shared ? 2 : 1);
  const std::int64_t width = basis.size(0), items = given.whole("items");
  const double deviation = 1 / std::sqrt(static_cast<double>(width));
  const auto parameter = [&] { return normal_tensor({width, width}, deviation, draws).requires_grad_(true); };
  Weights weights{.query = parameter(), .key = parameter(), .value = {}};
  std::vector<std::pair<std::string, at::Tensor>> learned{{"query", weights.query}, {"key", weights.key}};
  weights.value = shared ? weights.key : parameter();
  if (!shared) learned.emplace_back("value", weights.value);
  const TrainedCurve curve = train_lab(learned, given.whole("steps"), given.number("learning_rate"), [&](std::int64_t) {
    const LookUps look_ups = draw_look_ups(given.whole("batch"), items, basis, draws);
    return relative_error(attend(weights, look_ups), look_ups.answer);
  });
  for (at::Tensor* weight : {&weights.query, &weights.key, &weights.value}) *weight = weight->detach();
  const LookUps fresh = draw_look_ups(given.whole("draws"), items, basis, draws);
  return {weights,
          relative_error(attend(weights, fresh), fresh.answer).item<double>(),
          {.name = name, .x = curve.step, .y = curve.loss, .points = false}};
}

// How far scores q·x are off q·r, where r and c are orthogonal to each other within a token but else random: the root
// of the mean square of q·c, times √d, which is 1 for directions that have nothing to do with each other.
double crosstalk_of_scores(std::int64_t count, std::int64_t width, Draws& draws) {
  const auto unit = [&] {
    const at::Tensor vectors = normal_tensor({count, width}, 1, draws);
    return vectors / vectors.norm(2, -1, true);
  };
  const at::Tensor query = unit(), routing = unit();
  at::Tensor content = unit();
  content = content - (content * routing).sum(-1, true) * routing;
  content = content / content.norm(2, -1, true);
  return std::sqrt((query * content).sum(-1).square().mean().item<double>() * static_cast<double>(width));
}

// All that is measured of one seed.
struct Measured {
  double wrong_coupled = 0, wrong_decoupled = 0;  // perfect attention: one vector for both, and a projector
  double before_routing = 0, before_content = 0;  // lengths of r and c, and after a learned matrix
  double value_routing = 0, value_content = 0, key_routing = 0, key_content = 0, one_routing = 0, one_content = 0;
  double kept = 0;  // the error of W_V c
  double error_of_two = 0, error_of_one = 0;
  double crosstalk = 0;
  pages::ChartSeries two, one;
};

Measured measure(const LabParameters& given, std::uint64_t seed) {
  Draws draws(seed, 0);
  const std::int64_t width = given.whole("width"), half = width / 2;
  const at::Tensor basis = orthonormal_columns(width, draws);
  const at::Tensor projector = at::matmul(basis.slice(1, half, width), basis.slice(1, half, width).t());
  const LookUps look_ups = draw_look_ups(given.whole("draws"), given.whole("items"), basis, draws);

  // Perfect attention: y = Σ α_i W_V x_i with all weight on the target.
  const at::Tensor perfect = at::one_hot(look_ups.target, given.whole("items")).to(at::kDouble).unsqueeze(1);
  const at::Tensor coupled = at::matmul(perfect, look_ups.tokens()).squeeze(1);
  const at::Tensor decoupled = at::matmul(perfect, at::matmul(look_ups.tokens(), projector)).squeeze(1);

  const Learned two = learn(given, basis, false, "W_K and W_V", seed),
                one = learn(given, basis, true, "one W for both", seed);
  const auto through = [&](const at::Tensor& vectors, const at::Tensor& weight) {
    return mean_length(at::matmul(vectors, weight));
  };
  return {.wrong_coupled = mean_length(coupled - look_ups.answer) / mean_length(look_ups.query),
          .wrong_decoupled = (decoupled - look_ups.answer).abs().max().item<double>(),
          .before_routing = mean_length(look_ups.routing),
          .before_content = mean_length(look_ups.content),
          .value_routing = through(look_ups.routing, two.weights.value),
          .value_content = through(look_ups.content, two.weights.value),
          .key_routing = through(look_ups.routing, two.weights.key),
          .key_content = through(look_ups.content, two.weights.key),
          .one_routing = through(look_ups.routing, one.weights.value),
          .one_content = through(look_ups.content, one.weights.value),
          .kept = relative_error(at::matmul(look_ups.content, two.weights.value), look_ups.content).item<double>(),
          .error_of_two = two.error,
          .error_of_one = one.error,
          .crosstalk = crosstalk_of_scores(std::max<std::int64_t>(1000, given.whole("draws")), width, draws),
          .two = two.curve,
          .one = one.curve};
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  std::vector<Measured> runs(static_cast<std::size_t>(given.whole("seeds")));
  side_by_side(std::ssize(runs), host, [&](std::int64_t index) {
    runs[static_cast<std::size_t>(index)] = measure(given, static_cast<std::uint64_t>(given.whole("seed") + index));
  });
  const auto of_runs = [&](const auto& number) {
    std::vector<double> values;
    for (const Measured& each : runs) values.push_back(number(each));
    return values;
  };
  const auto mean = [&](double Measured::*of) {
    return mean_of(of_runs([&](const Measured& each) { return each.*of; })).value;
  };
  pages::TextTable table{"Lengths after a learned matrix, as means over tokens", {"", "of r", "of c", "r over c"}, {}};
  const auto row = [&](const std::string& name, double routing, double content) {
    table.rows.push_back({name, fmt::format("{:.4f}", routing), fmt::format("{:.4f}", content),
                          fmt::format("{:.4f}", routing / content)});
  };
  row("before", mean(&Measured::before_routing), mean(&Measured::before_content));
  row("W_V", mean(&Measured::value_routing), mean(&Measured::value_content));
  row("W_K", mean(&Measured::key_routing), mean(&Measured::key_content));
  row("one W for both", mean(&Measured::one_routing), mean(&Measured::one_content));
  return {
      .answer = fmt::format(
          "With a projector for W_V perfect attention gives c* alone. Trained on a look-up, W_V lets {:.1f} % "
          "as much of r through as of c; one matrix for keys and values misses {:.0f} % of the answer.",
          100 * mean(&Measured::value_routing) / mean(&Measured::value_content), 100 * mean(&Measured::error_of_one)),
      .findings =
          {of_draws({"Largest difference of y from c*, perfect attention, W_V a projector", follows, near, 0, 1e-12},
                    of_runs([](const Measured& each) { return each.wrong_decoupled; })),
           of_draws(
               {"Length of y − c* over that of r*, perfect attention, one vector for both", follows, near, 1, 1e-12},
               of_runs([](const Measured& each) { return each.wrong_coupled; })),
           of_draws({"Noise q·c of a score, times √d, where r and c are orthogonal only to each other", ours, near, 1,
                     0.1, 0,
                     "The lecture asks for r and c that are orthogonal. Within one token that does not help: the noise "
                     "comes from q and the c of other tokens, unless all r lie in one subspace and all c in another."},
                    of_runs([](const Measured& each) { return each.crosstalk; })),
           of_draws({"Learned: ‖W_V r‖ over ‖W_V c‖", ours, at_most, 0.05},
                    of_runs([](const Measured& each) { return each.value_routing / each.value_content; })),
           of_draws({"Learned: error of W_V c, ‖W_V c − c‖² over ‖c‖²", ours, at_most, 0.05},
                    of_runs([](const Measured& each) { return each.kept; })),
           of_draws({"Learned: ‖W_K c‖ over ‖W_K r‖", ours, at_most, 0.2},
                    of_runs([](const Measured& each) { return each.key_content / each.key_routing; })),
           of_draws({"Squared error of the answer with W_K and W_V, of the answer's square", ours, at_most, 0.05},
                    of_runs([](const Measured& each) { return each.error_of_two; })),
           of_draws({"The same with one W for both, less that with two", direction, above, 0},
                    of_runs([](const Measured& each) { return each.error_of_one - each.error_of_two; }))},
      .charts = {{.title = "Learning the look-up",
                  .x = {.title = "training steps"},
                  .y = {.title = "squared error, of the answer's", .logarithmic = true},
                  .series = {runs.front().two, runs.front().one}}},
      .tables = {table},
      .assumptions = {
          {"Tokens have two parts in two subspaces.",
           "r in one half of the dimensions and c in the other, in a random basis that nobody tells the "
           "network. A projector can separate them only because they are."},
          {"The query is r*.",
           "The one that is asked for; keys of the other tokens are random, so some "
           "are near it, and attention that is learned is never perfect."},
          {"One W for both is keys = values = W x.",
           "The query keeps a matrix of its own. W must let r through to be found by, and then gives it out."}}};
}

}  // namespace
}  // namespace cogwheel::labs::key_value

namespace cogwheel::labs {
LabEntry key_value_lab() {
  return {"key-value",
          "A key of its own, and a value",
          "Does a token that is both key and value give more than what was asked for?",
          key_value::parameters(),
          key_value::run,
          any_parameters,
          {"steps"}};
}
}  // namespace cogwheel::labs
