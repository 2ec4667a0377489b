// Whether features can stand for the exponential of each entry of QQᵀ, as the notes ask: the error of random features
// by their number, positive ones (Choromanski et al., "Rethinking Attention with Performers", 2020) and those of sine
// and cosine (Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", 2007), of Taylor's polynomial, and
// of the best that any features could do, which singular values tell.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svdvals.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"

namespace cogwheel::labs::features {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {16}, {2, 128}, "d, of a query"},
           {"tokens", {128}, {8, 1024}, "N"},
           {"deviations", {0.1, 0.5, 1, 2}, {0.05, 5}, "standard deviations of the scores q·k, rising", real, true},
           {"features",
            {16, 32, 64, 128, 256, 512, 1024, 2048},
            {2, 65536},
            "m, even numbers, rising, two at least",
            whole,
            true},
           {"degrees", {8}, {1, 20}, "of Taylor's polynomial at most"},
           {"draws", {10}, {2, 1000}, "of tokens and features"},
           {"error", {0.1}, {0.001, 1}, "relative error of the matrix that counts as small", real},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  given.expect_rising("deviations");
  given.expect_rising("features");
  if (given.wholes("features").size() < 2)
    throw UsageError(expected_got("features", "two at least", std::to_string(given.wholes("features").size())));
}

// Of one draw, by the number of features (or the degree): ‖Â − A‖ / ‖A‖ in Frobenius norm, A the exponential of each
// entry of QQᵀ.
struct Errors {
  std::vector<double> positive, waves, taylor;
  std::vector<double> rows;  // of positive features: half the mean of Σ_j |â_ij − a_ij| of rows divided by their sums
  std::vector<double> singular;       // √(Σ_{k>m} σ²) / √Σσ²: the least error of any m features
  std::vector<double> singular_rows;  // the same of the weights: rows divided by their sums
  double spread = 0;  // of positive features: mean squared relative error of an entry, times m, over its formula
};

double relative(const at::Tensor& found, const at::Tensor& truth) {
  return ((found - truth).norm() / truth.norm()).item<double>();
}

at::Tensor rows_of(const at::Tensor& matrix) { return matrix / matrix.sum(-1, true); }

// By the rank, from 1 on: Eckart and Young (1936).
std::vector<double> least_errors(const at::Tensor& matrix) {
  const at::Tensor squares = at::linalg_svdvals(matrix).square();
  const at::Tensor left = (squares.sum() - squares.cumsum(0)).clamp_min(0);
  std::vector<double> errors;
  for (std::int64_t rank = 0; rank < squares.size(0); ++rank)
    errors.push_back(std::sqrt((left[rank] / squares.sum()).item<double>()));
  return errors;
}

Errors draw(const LabParameters& given, double deviation, std::uint64_t part) {
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), part);
  const std::int64_t width = given.whole("width"), tokens = given.whole("tokens");
  // q·k of entries with variance v has the variance d v².
  const double entry = std::sqrt(deviation) / std::pow(static_cast<double>(width), 0.25);
  const at::Tensor query = normal_tensor({tokens, width}, entry, draws);
  const at::Tensor scores = at::matmul(query, query.t()), truth = scores.exp();
  const at::Tensor half_square = query.square().sum(-1, true) / 2;

  Errors errors;
  const std::vector<std::int64_t> counts = given.wholes("features");
  const at::Tensor directions = normal_tensor({width, counts.back()}, 1, draws),
                   projected = at::matmul(query, directions);
  for (const std::int64_t count : counts) {
    const auto features = static_cast<double>(count);
    const at::Tensor positive = (projected.narrow(1, 0, count) - half_square).exp() / std::sqrt(features);
    const at::Tensor found = at::matmul(positive, positive.t());
    errors.positive.push_back(relative(found, truth));
    errors.rows.push_back((rows_of(found) - rows_of(truth)).abs().sum(-1).mean().item<double>() / 2);
    // m/2 sines and as many cosines, whose product is that of exp(−|q − k|²/2).
    const at::Tensor angles = projected.narrow(1, 0, count / 2);
    const at::Tensor waves = at::cat({angles.sin(), angles.cos()}, 1) * half_square.exp() / std::sqrt(features / 2);
    errors.waves.push_back(relative(at::matmul(waves, waves.t()), truth));
    if (count == counts.back()) {
      // Var / exp(2 q·k) = (exp|q + k|² − 1)/m, of different tokens.
      const at::Tensor apart = at::ones({tokens, tokens}, at::kBool).triu(1);
      const at::Tensor squares = 2 * half_square + 2 * half_square.t() + 2 * scores;  // |q + k|²
      const at::Tensor measured = ((found - truth) / truth).square().masked_select(apart) * features;
      errors.spread = (measured / squares.exp().sub(1).masked_select(apart)).mean().item<double>();
    }
  }
  at::Tensor term = at::ones_like(scores), sum = term.clone();
  for (std::int64_t degree = 1; degree <= given.whole("degrees"); ++degree) {
    term = term * scores / static_cast<double>(degree);
    sum = sum + term;
    errors.taylor.push_back(relative(sum, truth));
  }
  errors.singular = least_errors(truth), errors.singular_rows = least_errors(rows_of(truth));
  return errors;
}

// Products of up to `degree` of `width` numbers, with repetition: the features of Taylor's polynomial.
double taylor_features(std::int64_t width, std::int64_t degree) {
  double count = 1;
  for (std::int64_t i = 1; i <= degree; ++i) count = count * static_cast<double>(width + i) / static_cast<double>(i);
  return std::round(count);
}

struct MeanErrors {
  std::vector<double> positive, waves, rows, taylor, singular, singular_rows;
  Mean spread;
  std::vector<double> slopes;  // of log error on log m, positive features, of each draw
};

MeanErrors mean_errors(const std::vector<Errors>& draws, const std::vector<double>& counts) {
  MeanErrors means;
  const auto mean = [&](const auto& of) {
    std::vector<double> sums(of(draws.front()).size());
    for (const Errors& each : draws)
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of(each)[i] / static_cast<double>(draws.size());
    return sums;
  };
  means.positive = mean([](const Errors& each) { return each.positive; });
  means.waves = mean([](const Errors& each) { return each.waves; });
  means.rows = mean([](const Errors& each) { return each.rows; });
  means.taylor = mean([](const Errors& each) { return each.taylor; });
  means.singular = mean([](const Errors& each) { return each.singular; });
  means.singular_rows = mean([](const Errors& each) { return each.singular_rows; });
  std::vector<double> spreads, x;
  for (const double count : counts) x.push_back(std::log(count));
  for (const Errors& each : draws) {
    spreads.push_back(each.spread);
    std::vector<double> y;
    for (const double error : each.positive) y.push_back(std::log(error));
    means.slopes.push_back(fit_line(x, y).slope);
  }
  means.spread = mean_of(spreads);
  return means;
}

// The first m of rising ones whose error is at most `error`; 0 where none is.
double enough(const std::vector<double>& counts, const std::vector<double>& errors, double error) {
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i] <= error) return counts[i];
  return 0;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::vector<double>& deviations = given.numbers("deviations");
  const std::vector<double>& counts = given.numbers("features");
  const std::int64_t draws = given.whole("draws"), width = given.whole("width"), tokens = given.whole("tokens");
  std::vector<std::vector<Errors>> errors(deviations.size(), std::vector<Errors>(static_cast<std::size_t>(draws)));
  side_by_side(std::ssize(deviations) * draws, host, [&](std::int64_t index) {
    const auto size = static_cast<std::size_t>(index / draws), number = static_cast<std::size_t>(index % draws);
    errors[size][number] = draw(given, deviations[size], static_cast<std::uint64_t>((index / draws << 24) + number));
  });

  LabResult result;
  pages::TextTable table{
      "Error of the matrix",
      {"scores scatter by", "m", "positive", "sine and cosine", "weights, positive", "least of any m features"},
      {}},
      needed{fmt::format("Features for an error of {:g}", given.number("error")),
             {"scores scatter by", "positive", "sine and cosine", "Taylor (degree)", "least of any",
              "least of any, weights"},
             {}};
  std::vector<double> ranks, degrees;
  for (std::int64_t rank = 1; rank <= tokens; ++rank) ranks.push_back(static_cast<double>(rank));
  for (std::int64_t degree = 1; degree <= given.whole("degrees"); ++degree)
    degrees.push_back(static_cast<double>(degree));
  const auto count_text = [](double count) { return count > 0 ? number_for_readers(count) : std::string("more"); };
  double least = 0, least_rows = 0, positive_needed = 0;
  for (std::size_t size = 0; size < deviations.size(); ++size) {
    const MeanErrors means = mean_errors(errors[size], counts);
    const std::string of = fmt::format("scores of {:g}", deviations[size]);
    if (size == 0) {
      result.findings.push_back(
          of_draws({"Positive features: slope of log error on log m, " + of, ours, near, -0.5, 0.1}, means.slopes));
      std::vector<double> spreads;
      for (const Errors& each : errors[size]) spreads.push_back(each.spread);
      result.findings.push_back(of_draws(
          {"Squared relative error of an entry, times m, over exp|q + k|² − 1, " + of, ours, near, 1, 0.2}, spreads));
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto rank = static_cast<std::size_t>(counts[i]);
      table.rows.push_back({fmt::format("{:g}", deviations[size]), number_for_readers(counts[i]),
                            fmt::format("{:.4f}", means.positive[i]), fmt::format("{:.4f}", means.waves[i]),
                            fmt::format("{:.4f}", means.rows[i]),
                            rank <= means.singular.size() ? fmt::format("{:.4f}", means.singular[rank - 1]) : "0"});
    }
    const double error = given.number("error"), degree = enough(degrees, means.taylor, error);
    least_rows = enough(ranks, means.singular_rows, error);
    least = enough(ranks, means.singular, error), positive_needed = enough(counts, means.positive, error);
    needed.rows.push_back(
        {fmt::format("{:g}", deviations[size]), count_text(positive_needed),
         count_text(enough(counts, means.waves, error)),
         degree > 0 ? fmt::format("{} ({})", number_for_readers(taylor_features(width, std::llround(degree))), degree)
                    : std::string("more"),
         count_text(least), count_text(least_rows)});
    result.findings.push_back(
        {fmt::format("Error of the matrix with as many positive features as tokens, or the nearest m, {}", of), nobody,
         shown, 0, 0, [&] {
           std::size_t nearest = 0;
           for (std::size_t i = 0; i < counts.size(); ++i)
             if (std::abs(counts[i] - static_cast<double>(tokens)) <
                 std::abs(counts[nearest] - static_cast<double>(tokens)))
               nearest = i;
           return means.positive[nearest];
         }()});
    result.findings.push_back(
        {fmt::format("Least features for an error of {:g}, of {} tokens (the notes: still of low rank), {}", error,
                     tokens, of),
         direction, at_most, static_cast<double>(tokens) / 2, 0, least > 0 ? least : static_cast<double>(tokens)});
    result.findings.push_back(
        {fmt::format("The same of the weights, rows divided by their sums, {}", of), direction, at_most,
         static_cast<double>(tokens) / 2, 0, least_rows > 0 ? least_rows : static_cast<double>(tokens),
         "A token's largest product is that with itself, so that weights come near to the identity as "
         "scores grow, which has full rank."});
    std::vector<double> expected;
    for (const double count : counts) expected.push_back(means.positive.front() * std::sqrt(counts.front() / count));
    pages::ChartSeries best{.name = "least of any m", .x = {}, .y = {}, .points = false};
    for (std::size_t rank = 0; rank < means.singular.size(); ++rank)
      if (means.singular[rank] > 1e-4) best.x.push_back(ranks[rank]), best.y.push_back(means.singular[rank]);
    result.charts.push_back(
        {.title = fmt::format("Error by the number of features, scores scatter by {:g}", deviations[size]),
         .x = {.title = "m, features", .logarithmic = true},
         .y = {.title = "error of the matrix", .logarithmic = true},
         .series = {{.name = "positive", .x = counts, .y = means.positive},
                    {.name = "sine and cosine", .x = counts, .y = means.waves},
                    {.name = "1/√m", .x = counts, .y = expected, .points = false, .expected = true},
                    best}});
  }
  result.tables = {needed, table};
  const auto or_more = [&](double count, double most) {
    return count > 0 ? number_for_readers(count) : "more than " + number_for_readers(most);
  };
  result.answer = fmt::format(
      "They can, at a price that grows with the scores: where these scatter by {:g}, {} features are the least that "
      "any "
      "approximation of the matrix of {} tokens takes for an error of {:g}, {} the least for its weights, and positive "
      "random "
      "ones need {}.",
      deviations.back(), or_more(least, static_cast<double>(tokens)), tokens, given.number("error"),
      or_more(least_rows, static_cast<double>(tokens)), or_more(positive_needed, counts.back()));
  result.assumptions = {
      {"Queries are random.",
       "Normal, and keys are the queries, as in the notes. Trained ones lie nearer to each other, which "
       "lowers the rank and raises the largest scores."},
      {"The error is that of the whole matrix.",
       "‖Â − A‖ over ‖A‖, in which large entries count most; that of the weights is "
       "half of Σ|â − a| of a row."},
      {"Any m features.",
       "A matrix of rank m is at best as near as the singular values beyond the m-th allow (Eckart and "
       "Young). It would have to be found for each text anew."},
      {"Scores are q·k as they come into the exponential.", "After the division by √d."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::features

namespace cogwheel::labs {
LabEntry features_lab() {
  return {"features",
          "Features in place of an exponential",
          "Can features approximate the exponential of each entry of QQᵀ, and how many does it take?",
          features::parameters(),
          features::run,
          features::check};
}
}  // namespace cogwheel::labs
