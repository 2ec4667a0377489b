// What the notes on the symmetric transformer found not to work, and why: functions of the whole matrix QQᵀ leak the
// future through a mask, grow without a bound, and when they are normalised give every token the same weights; simple
// norms give nearly equal ones.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"
#include "cogwheel/research/labs/sums.h"

namespace cogwheel::labs::failures {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {16}, {8, 64}, "d, of queries, which are the keys"},
           {"lengths", {16, 32, 64, 128, 256}, {4, 512}, "N, tokens; rising, two at least", whole, true},
           {"leak_tokens", {24}, {3, 128}, "of the texts whose last token is changed"},
           {"draws", {20}, {2, 1000}, "of the tokens"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  given.expect_rising("lengths");
  if (given.wholes("lengths").size() < 2)
    throw UsageError(expected_got("lengths", "two at least", std::to_string(given.wholes("lengths").size())));
}

// A function of the whole matrix A = QQᵀ/√d, and the mechanism that computes its causal rows safely.
struct Function {
  std::string name, mechanism;
  at::Tensor (*of)(const at::Tensor& matrix);
  bool leaks = false;  // also the mechanism, as its header says
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all{
      {"exp(A)", "matrix_exponential", [](const at::Tensor& a) { return at::linalg_matrix_exp(a); }},
      {"exp(A) by the length of its rows", "matrix_exponential_l2",
       [](const at::Tensor& a) {
         const at::Tensor e = at::linalg_matrix_exp(a);
         return e / e.norm(2, -1, true);
       }},
      {"exp(A) by the sums of its rows", "matrix_exponential_by_row",
       [](const at::Tensor& a) {
         const at::Tensor e = at::linalg_matrix_exp(a);
         return e / e.abs().sum(-1, true);
       }},
      {"1 + A/‖A‖²", "simple_norm_by_matrix",
       [](const at::Tensor& a) { return (1 + a / a.square().sum()) / static_cast<double>(a.size(0)); }, true},
      {"1 + A/‖A‖² by row", "simple_norm_by_row",
       [](const at::Tensor& a) { return (1 + a / a.square().sum(-1, true)) / static_cast<double>(a.size(0)); }}};
  return all;
}

at::Tensor scores_of(const at::Tensor& query) {
  return at::matmul(query, query.t()) / std::sqrt(static_cast<double>(query.size(1)));
}

at::Tensor by_mechanism(const std::string& mechanism, const at::Tensor& query, const at::Tensor& value) {
  ops::AttentionOptions options;
  options.causal = true;
  const auto heads = [](const at::Tensor& matrix) { return matrix.unsqueeze(0).unsqueeze(0); };
  return ops::attention(heads(query), heads(query), heads(value), mechanism, options)[0][0];
}

// How much the outputs of earlier tokens change with the last one, over their largest number.
double change_of_earlier(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor before = one.slice(0, 0, one.size(0) - 1);
  return ((other.slice(0, 0, one.size(0) - 1) - before).abs().max() / before.abs().max()).item<double>();
}

struct Leak {
  double masked = 0, safe = 0;  // change of earlier outputs: f(A) with later columns set to 0, and the mechanism
  double formula = 0;           // largest difference of the mechanism from f of the block of tokens so far
};

Leak leak_of(const Function& function, const at::Tensor& query, const at::Tensor& value,
             const at::Tensor& other_query) {
  const auto masked = [&](const at::Tensor& of) { return at::matmul(function.of(scores_of(of)).tril(), value); };
  const at::Tensor safe = by_mechanism(function.mechanism, query, value);
  Leak leak{.masked = change_of_earlier(masked(query), masked(other_query)),
            .safe = change_of_earlier(safe, by_mechanism(function.mechanism, other_query, value))};
  for (std::int64_t row = 0; row < query.size(0); ++row) {
    const at::Tensor block = function.of(scores_of(query.slice(0, 0, row + 1)));
    const at::Tensor expected = at::matmul(block[row], value.slice(0, 0, row + 1));
    leak.formula = std::max(leak.formula, ((safe[row] - expected).abs().max() / expected.abs().max()).item<double>());
  }
  return leak;
}

// A² with later columns set to 0, beside the form that uses only what came before: q_iᵀ M_i q_j, M_i = Σ_{k≤i} q_k
// q_kᵀ.
Leak leak_of_square(const at::Tensor& query, const at::Tensor& value, const at::Tensor& other_query) {
  const auto masked = [&](const at::Tensor& of) {
    return at::matmul(scores_of(of).matmul(scores_of(of)).tril(), value);
  };
  const auto safe = [&](const at::Tensor& of) {
    const at::Tensor sums = (of.unsqueeze(2) * of.unsqueeze(1)).cumsum(0) / static_cast<double>(of.size(1));  // M_i / d
    return at::matmul(at::matmul(at::matmul(of.unsqueeze(1), sums).squeeze(1), of.t()).tril(), value);
  };
  Leak leak{.masked = change_of_earlier(masked(query), masked(other_query)),
            .safe = change_of_earlier(safe(query), safe(other_query))};
  const at::Tensor found = safe(query);
  for (std::int64_t row = 0; row < query.size(0); ++row) {
    const at::Tensor block = scores_of(query.slice(0, 0, row + 1));
    const at::Tensor expected = at::matmul(block.matmul(block)[row], value.slice(0, 0, row + 1));
    leak.formula = std::max(leak.formula, ((found[row] - expected).abs().max() / expected.abs().max()).item<double>());
  }
  return leak;
}

struct Shape {
  double log_largest = 0, eigenvalue = 0;       // log₁₀ of the largest entry of exp(A); the largest eigenvalue of A
  double negative = 0;                          // share of the entries of exp(A)
  double alike = 0, alike_softmax = 0;          // mean |cosine| between two rows: of exp(A), of softmax
  double simple = 0, simple_row = 0, norm = 0;  // standard deviation of N a_ij
};

double alikeness(const at::Tensor& matrix) {
  const at::Tensor rows = matrix / matrix.norm(2, -1, true);
  const auto count = static_cast<double>(matrix.size(0));
  return ((at::matmul(rows, rows.t()).abs().sum().item<double>()) - count) / (count * (count - 1));
}

Shape shape_of(const at::Tensor& query) {
  const at::Tensor scores = scores_of(query);
  // Of A less its largest eigenvalue, which keeps the exponential finite: exp(A) = e^λ exp(A − λ).
  const double eigenvalue = at::linalg_svdvals(scores)[0].item<double>();
  const at::Tensor exponential = at::linalg_matrix_exp(scores - eigenvalue * at::eye(scores.size(0), scores.options()));
  const at::Tensor unit = query / query.norm(2, -1, true), norm = 1 + at::matmul(unit, unit.t());
  const auto count = static_cast<double>(query.size(0));
  const auto spread = [&](const at::Tensor& weights) { return (count * weights).std().item<double>(); };
  return {.log_largest = (std::log(exponential.abs().max().item<double>()) + eigenvalue) / std::log(10.0),
          .eigenvalue = eigenvalue,
          .negative = exponential.lt(0).to(at::kDouble).mean().item<double>(),
          .alike = alikeness(exponential),
          .alike_softmax = alikeness(at::softmax(scores, -1)),
          .simple = spread(functions()[3].of(scores)),
          .simple_row = spread(functions()[4].of(scores)),
          .norm = spread(norm / norm.sum(-1, true))};
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const std::int64_t width = given.whole("width"), tokens = given.whole("leak_tokens");
  const auto draws = static_cast<std::size_t>(given.whole("draws"));
  const auto seed = static_cast<std::uint64_t>(given.whole("seed"));

  LabResult result;
  pages::TextTable leaks{"How much earlier outputs change with the last token, of their largest number",
                         {"function", "masked afterwards", "causal rows of the operator", "operator less the formula"},
                         {}};
  std::vector<std::vector<double>> masked(functions().size() + 1);
  double safe = 0, formula = 0;
  std::vector<double> leaking;  // of the one that leaks as a mechanism too
  std::vector<Leak> worst(functions().size() + 1);
  for (std::size_t number = 0; number < draws; ++number) {
    Draws random(seed, number);
    const at::Tensor query = normal_tensor({tokens, width}, 1, random),
                     value = normal_tensor({tokens, width}, 1, random);
    at::Tensor other = query.clone();
    other[tokens - 1].copy_(normal_tensor({width}, 1, random));
    for (std::size_t index = 0; index <= functions().size(); ++index) {
      const Leak leak =
          index == 0 ? leak_of_square(query, value, other) : leak_of(functions()[index - 1], query, value, other);
      masked[index].push_back(leak.masked);
      if (index > 0 && functions()[index - 1].leaks)
        leaking.push_back(leak.safe);
      else
        safe = std::max(safe, leak.safe), formula = std::max(formula, leak.formula);
      worst[index].safe = std::max(worst[index].safe, leak.safe);
      worst[index].formula = std::max(worst[index].formula, leak.formula);
    }
  }
  for (std::size_t index = 0; index < masked.size(); ++index) {
    const std::string name = index == 0 ? "A²" : functions()[index - 1].name;
    const Mean mean = mean_of(masked[index]);
    leaks.rows.push_back(
        {name, fmt::format("{:.3g} ± {:.2g}", mean.value, mean.error), fmt::format("{:.1g}", worst[index].safe),
         index > 0 && functions()[index - 1].leaks ? "–" : fmt::format("{:.1g}", worst[index].formula)});
    // Of each draw, for sizes differ by orders of magnitude between them.
    result.findings.push_back({"Least change of earlier outputs with the last token, " + name + " masked afterwards",
                               index <= 3 ? direction : nobody, index <= 3 ? above : shown, 0, 0,
                               *std::min_element(masked[index].begin(), masked[index].end())});
  }
  result.findings.push_back(
      {"The same of all but 1 + A/‖A‖², in rows of the tokens up to each: largest", ours, near, 0, 1e-9, safe});
  result.findings.push_back(
      {"The same of 1 + A/‖A‖² where ‖A‖ is that of the matrix: least", ours, above, 0, 0,
       *std::min_element(leaking.begin(), leaking.end()),
       "It sums over every query and key, the hidden ones too: the mechanism leaks as the notes have it."});
  result.findings.push_back(
      {"Largest difference of those rows from f of the block of tokens so far", ours, near, 0, 1e-6, formula});

  const std::vector<std::int64_t> lengths = given.wholes("lengths");
  const std::vector<double> x(lengths.begin(), lengths.end());
  pages::TextTable shapes{
      "What becomes of the weights",
      {"N", "largest entry of exp(A), log₁₀", "λ₁/ln 10, expected", "negative entries", "rows alike, exp(A)",
       "rows alike, softmax", "spread, simple norm", "the same by row", "spread, norm"},
      {}};
  pages::ChartSeries grown{.name = "largest entry", .x = x, .y = {}, .line = false},
      expected{.name = "by (√N + √d)²/√d", .x = x, .y = {}, .points = false, .expected = true},
      alike{.name = "exp(A)", .x = x, .y = {}}, alike_softmax{.name = "softmax", .x = x, .y = {}};
  std::vector<std::vector<Shape>> all(lengths.size());
  const double root = std::sqrt(static_cast<double>(width));
  for (std::size_t index = 0; index < lengths.size(); ++index) {
    for (std::size_t number = 0; number < draws; ++number) {
      Draws random(seed, static_cast<std::uint64_t>(lengths[index] << 20) + number);
      all[index].push_back(shape_of(normal_tensor({lengths[index], width}, 1, random)));
    }
    const auto mean = [&](double Shape::*of) {
      double sum = 0;
      for (const Shape& each : all[index]) sum += each.*of / static_cast<double>(draws);
      return sum;
    };
    grown.y.push_back(mean(&Shape::log_largest));
    expected.y.push_back((std::sqrt(x[index]) + root) * (std::sqrt(x[index]) + root) / root / std::log(10.0));
    alike.y.push_back(mean(&Shape::alike)), alike_softmax.y.push_back(mean(&Shape::alike_softmax));
    shapes.rows.push_back({number_for_readers(x[index]), fmt::format("{:.2f}", grown.y.back()),
                           fmt::format("{:.2f}", expected.y.back()), fmt::format("{:.3f}", mean(&Shape::negative)),
                           fmt::format("{:.3f}", alike.y.back()), fmt::format("{:.3f}", alike_softmax.y.back()),
                           fmt::format("{:.2g}", mean(&Shape::simple)), fmt::format("{:.2g}", mean(&Shape::simple_row)),
                           fmt::format("{:.2g}", mean(&Shape::norm))});
  }
  const auto of = [&](double Shape::*member) {
    std::vector<double> values;
    for (const Shape& each : all.back()) values.push_back(each.*member);
    return values;
  };
  const std::string far = fmt::format("N = {}", number_for_readers(x.back()));
  result.findings.push_back(of_draws({"Largest eigenvalue of A over (√N + √d)²/√d, " + far, ours, near, 1, 0.15}, [&] {
    std::vector<double> values = of(&Shape::eigenvalue);
    for (double& each : values) each /= expected.y.back() * std::log(10.0);
    return values;
  }()));
  result.findings.push_back({"Largest entry of exp(A), log₁₀, " + far, nobody, shown, 0, 0, grown.y.back(),
                             "Nothing bounds it: it grows as e^(N/√d). float32 ends at 38.5."});
  result.findings.push_back(
      of_draws({"Share of the entries of exp(A) that are negative, " + far, direction, above, 0, 0, 0,
                "The notes ask whether entries are positive as the matrix is. They are not."},
               of(&Shape::negative)));
  result.findings.push_back(
      of_draws({"Rows of exp(A) alike, however normalised: mean |cosine| of two, " + far, ours, above, 0.8, 0, 0,
                "The largest eigenvalue is ahead of the others by so much that all rows are multiples of "
                "one vector. A norm of rows then makes all tokens attend alike."},
               of(&Shape::alike)));
  result.findings.push_back(of_draws({"The same of softmax, " + far, nobody, shown, 0}, of(&Shape::alike_softmax)));
  result.findings.push_back(of_draws({"Simple norm: standard deviation of N·a, " + far, ours, at_most, 0.05, 0, 0,
                                      "What it gives is the mean of the values, to a few hundredths."},
                                     of(&Shape::simple)));
  result.findings.push_back(of_draws({"The same by row, " + far, ours, at_most, 0.5}, of(&Shape::simple_row)));
  result.findings.push_back(of_draws({"The same of norm, which works, " + far, nobody, shown, 0}, of(&Shape::norm)));
  result.charts = {{.title = "Growth of exp(A)",
                    .x = {.title = "N, tokens", .logarithmic = true},
                    .y = {.title = "log₁₀ of the largest entry"},
                    .series = {grown, expected},
                    .marks = {{pages::ChartMark::Axis::y, 38.5, "float32 ends"}}},
                   {.title = "How alike two rows are",
                    .x = {.title = "N, tokens", .logarithmic = true},
                    .y = {.title = "mean |cosine|", .min = 0, .max = 1},
                    .series = {alike, alike_softmax}}};
  result.tables = {leaks, shapes};
  result.answer = fmt::format(
      "A function of the whole matrix, masked afterwards, tells earlier tokens of later ones; rows of the tokens up to "
      "each do "
      "not. At {} exp(A) reaches 10^{:.0f}, its rows have a mean |cosine| of {:.2f} (softmax {:.2f}), and the simple "
      "norm is the "
      "mean of the values to {:.1g}.",
      far, grown.y.back(), alike.y.back(), alike_softmax.y.back(), mean_of(of(&Shape::simple)).value);
  result.assumptions = {
      {"Queries are random.",
       "Normal, of variance 1, and A = QQᵀ/√d. Training changes their size, not that exp(A) is a function "
       "of eigenvalues that grow with the text."},
      {"‖A‖² is read two ways.",
       "As the sum of squares of the matrix or of a row; the notes leave it open. Both are divided by N, "
       "which they leave out."},
      {"Causal rows are those of the block of tokens so far.",
       "Row i of f(A_≤i): the answer here to what the notes leave open, "
       "how to generate without changing earlier results."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::failures

namespace cogwheel::labs {
LabEntry failures_lab() {
  return {"failures",
          "Functions of the whole matrix that fail",
          "Why do matrix exponentials and simple norms not work, and do they leak the future through a mask?",
          failures::parameters(),
          failures::run,
          failures::check};
}
}  // namespace cogwheel::labs
