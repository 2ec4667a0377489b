// What the difference of two softmax maps does to noise: a key that is planted among others, which both maps see with
// noise that they share or not. The argument of Ye et al., "Differential Transformer" (2024), as the notes retell it.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"

namespace cogwheel::labs::noise {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {32}, {8, 256}, "d, of queries and keys"},
           {"lengths",
            {16, 64, 256, 1024, 4096},
            {2, 16384},
            "L, keys between the planted one and the query; rising",
            whole,
            true},
           {"gap", {4}, {-20, 20}, "score of the planted key in the first map; that of others is 0 on average", real},
           {"second_gap", {0}, {-20, 20}, "its score in the second map", real},
           {"deviation", {1}, {0, 10, true}, "standard deviation of the scores of the others", real},
           {"shared", {0, 0.5, 0.9, 1}, {0, 1}, "correlation of these scores in the two maps, rising", real, true},
           {"lambda", {0.8}, {0, 1}, "what the second map is multiplied by; its initial value in deep layers", real},
           {"draws", {100}, {2, 100000}, "of the keys"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  given.expect_rising("lengths");
  given.expect_rising("shared");
  if (given.wholes("lengths").size() < 2)
    throw UsageError(expected_got("lengths", "two at least", std::to_string(given.wholes("lengths").size())));
}

// The weight of the planted key over the root of the sum of squares of the others: signal over noise of an output whose
// values are independent and equally large.
double signal_over_noise(const at::Tensor& weights) {  // [L + 1], the planted one first
  return (weights[0] / weights.slice(0, 1).norm()).item<double>();
}

struct Ratios {
  double softmax = 0;
  std::vector<double> differential;  // by what is shared
};

// Keys of both maps have scores N(0, deviation²), correlated as `shared` says; the query is the same direction in both.
Ratios draw(const LabParameters& given, std::int64_t length, std::int64_t number) {
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), static_cast<std::uint64_t>((length << 24) + number));
  const std::int64_t width = given.whole("width");
  at::Tensor query = normal_tensor({width}, 1, draws);
  query = query / query.norm();
  const at::Tensor first = normal_tensor({length, width}, given.number("deviation"), draws),
                   other = normal_tensor({length, width}, given.number("deviation"), draws);
  const auto planted = [&](double gap, const at::Tensor& noise) {
    return at::cat({(gap * query).unsqueeze(0), noise});
  };
  const auto heads = [&](const std::vector<at::Tensor>& each) { return at::stack(each).unsqueeze(0); };
  ops::AttentionOptions options;
  options.scale = 1.0;
  const at::Tensor one_query = query.unsqueeze(0), keys = planted(given.number("gap"), first);
  Ratios ratios;
  ratios.softmax =
      signal_over_noise(ops::attention_weights(heads({one_query}), heads({keys}), "softmax", options)[0][0][0]);
  options.parameters = {{"lam", at::full({1}, given.number("lambda"), at::kDouble)}};
  for (const double shared : given.numbers("shared")) {
    const at::Tensor second =
        planted(given.number("second_gap"), shared * first + std::sqrt(1 - shared * shared) * other);
    ratios.differential.push_back(signal_over_noise(ops::attention_weights(
        heads({one_query, one_query}), heads({keys, second}), "differential", options)[0][0][0]));
  }
  return ratios;
}

// Of scores with normal noise, for many keys: E e^s = e^(σ²/2), E e^(2s) = e^(2σ²), E e^(s + s') = e^(σ²(1 + ρ)).
double expected_ratio(const LabParameters& given, double length, double shared, bool differential) {
  const double variance = given.number("deviation") * given.number("deviation");
  const double others = length * std::exp(variance / 2);
  const double first = std::exp(given.number("gap")) + others, second = std::exp(given.number("second_gap")) + others;
  const double lambda = differential ? given.number("lambda") : 0;
  const double signal = std::exp(given.number("gap")) / first - lambda * std::exp(given.number("second_gap")) / second;
  const double square = std::exp(2 * variance) * (1 / (first * first) + lambda * lambda / (second * second)) -
                        2 * lambda * std::exp(variance * (1 + shared)) / (first * second);
  return signal / std::sqrt(length * square);
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::vector<std::int64_t> lengths = given.wholes("lengths");
  const std::vector<double>& shared = given.numbers("shared");
  const std::int64_t draws = given.whole("draws");
  std::vector<std::vector<Ratios>> ratios(lengths.size(), std::vector<Ratios>(static_cast<std::size_t>(draws)));
  side_by_side(std::ssize(lengths) * draws, host, [&](std::int64_t index) {
    const auto length = static_cast<std::size_t>(index / draws), number = static_cast<std::size_t>(index % draws);
    ratios[length][number] = draw(given, lengths[length], index % draws);
  });

  const auto values = [&](std::size_t length, const std::function<double(const Ratios&)>& of) {
    std::vector<double> all;
    for (const Ratios& each : ratios[length]) all.push_back(of(each));
    return all;
  };
  const auto softmax = [](const Ratios& each) { return each.softmax; };
  const auto differential = [](std::size_t index) {
    return [index](const Ratios& each) { return each.differential[index]; };
  };
  const auto gain = [](std::size_t index) {
    return [index](const Ratios& each) { return each.differential[index] / each.softmax; };
  };
  const std::vector<double> x(lengths.begin(), lengths.end());
  pages::LineChart chart{.title = "Signal over noise by distance",
                         .x = {.title = "L, keys in between", .logarithmic = true},
                         .y = {.title = "weight of the planted key over the noise", .logarithmic = true},
                         .series = {},
                         .caption = "Dashed: for scores with normal noise and many keys."},
      gains{.title = "Differential over softmax",
            .x = {.title = "L, keys in between", .logarithmic = true},
            .y = {.title = "ratio of signal over noise", .logarithmic = true},
            .series = {},
            .marks = {{pages::ChartMark::Axis::y, 1, "softmax"}}};
  pages::TextTable table{"Signal over noise", {"L", "softmax"}, {}};
  for (const std::int64_t length : lengths) table.rows.push_back({number_for_readers(static_cast<double>(length))});
  double worst = 0;
  const auto add = [&](const std::string& name, const std::function<double(const Ratios&)>& of, double correlation,
                       bool is_differential) {
    pages::ChartSeries series{.name = name, .x = x, .y = {}, .error = {}, .line = false},
        formula{.name = name + ", expected", .x = x, .y = {}, .points = false, .expected = true};
    for (std::size_t length = 0; length < lengths.size(); ++length) {
      const Mean mean = mean_of(values(length, of));
      series.y.push_back(mean.value), series.error.push_back(mean.error);
      formula.y.push_back(expected_ratio(given, x[length], correlation, is_differential));
      table.rows[length].push_back(fmt::format("{:.3f} ± {:.3f}", mean.value, mean.error));
    }
    const double off = series.y.back() / formula.y.back() - 1;
    if (std::abs(off) > std::abs(worst)) worst = off;
    chart.series.push_back(series), chart.series.push_back(formula);
  };
  add("softmax", softmax, 0, false);
  for (std::size_t index = 0; index < shared.size(); ++index) {
    const std::string name = fmt::format("differential, {:g} shared", shared[index]);
    add(name, differential(index), shared[index], true);
    table.columns.push_back(name);
    pages::ChartSeries series{.name = fmt::format("{:g} shared", shared[index]), .x = x, .y = {}, .error = {}};
    for (std::size_t length = 0; length < lengths.size(); ++length) {
      const Mean mean = mean_of(values(length, gain(index)));
      series.y.push_back(mean.value), series.error.push_back(mean.error);
    }
    gains.series.push_back(series);
  }

  LabResult result;
  const std::string far = fmt::format("L = {}", number_for_readers(x.back()));
  for (std::size_t index = shared.size(); index-- > 0;)
    result.findings.push_back(of_draws(
        {fmt::format("Signal over noise, differential over softmax, {:g} of the noise shared, {}", shared[index], far),
         direction, above, 1, 0, 0,
         shared[index] > 0
             ? ""
             : "Noise that the maps do not share is not cancelled but added: two independent amounts of it. The "
               "two maps have queries and keys of their own, and nothing but training makes their noise alike."},
        values(lengths.size() - 1, gain(index))));
  std::vector<double> longer;
  for (std::size_t number = 0; number < static_cast<std::size_t>(draws); ++number)
    longer.push_back(gain(shared.size() - 1)(ratios.back()[number]) - gain(shared.size() - 1)(ratios.front()[number]));
  result.findings.push_back(of_draws({fmt::format("That gain at {} less that at L = {}, {:g} shared (at long range)",
                                                  far, lengths.front(), shared.back()),
                                      direction, above, 0},
                                     longer));
  std::vector<double> log_length, log_ratio;
  for (std::size_t length = 0; length < lengths.size(); ++length)
    log_length.push_back(std::log(x[length])), log_ratio.push_back(std::log(mean_of(values(length, softmax)).value));
  result.findings.push_back(
      {"Softmax: slope of log (signal/noise) on log L", ours, near, -0.5, 0.1, fit_line(log_length, log_ratio).slope});
  result.findings.push_back(
      {fmt::format("Measured over expected, of all maps at its farthest, {}", far), ours, near, 1, 0.1, 1 + worst});
  const double whole = mean_of(values(lengths.size() - 1, gain(shared.size() - 1))).value,
               none = mean_of(values(lengths.size() - 1, gain(0))).value;
  result.answer = fmt::format(
      "The difference cancels the noise that its maps share: at {} the signal over noise is {:.2f} times that of "
      "softmax where "
      "they share {:g} of it, and {:.2f} times where they share {:g}.",
      far, whole, shared.back(), none, shared.front());
  result.charts = {chart, gains};
  result.tables = {table};
  result.assumptions = {{"Weights are constructed, not trained.",
                         "Both maps have one query; the planted key has a score of its own, those of the others are "
                         "random. Whether training "
                         "makes maps share their noise is another question."},
                        {"Noise is that of an output.",
                         "Values are independent and equally long, so that the noise is the root of the sum of "
                         "squares of the weights of the other keys."},
                        {"The planted key is L keys away.",
                         "Scores do not depend on the distance itself: what grows with it is the number of "
                         "other keys."},
                        {"The norm of a head and 1 − λ_init are left out.", "They multiply signal and noise alike."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::noise

namespace cogwheel::labs {
LabEntry noise_lab() {
  return {"noise",
          "Whether a difference of maps cancels noise",
          "Does differential attention have more signal over noise than softmax, above all at long range?",
          noise::parameters(),
          noise::run,
          noise::check};
}
}  // namespace cogwheel::labs
