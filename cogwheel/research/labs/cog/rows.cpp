// Rows of scores as Cog makes weights of them: why the exponents are shifted by the largest magnitude and not by the
// largest score, what overflows in numbers of 32 and 16 bits, and why magnitudes are summed and not signed numbers.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"

namespace cogwheel::labs::rows {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"positives",
            {4, 3, 2.5, 1, -0.5, -1.5, -2},
            {-1e4, 1e4},
            "scores of the first panel, where positives dominate",
            real,
            true},
           {"second", {1, -100}, {-1e4, 1e4}, "scores of the second panel", real, true},
           {"large", {1e4}, {1, 3e4}, "x of the rows {−x, x}, {−x, 1} and {x, −1}", real},
           {"keys", {32}, {2, 4096}, "scores of a random row"},
           {"rows", {20000}, {10, 1000000}, "random rows, of scores with variance 1, for the sums of signed weights"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

struct Number {
  at::ScalarType type;
  std::string name;
  double precision;  // half the distance of two numbers next to 1
};
const std::vector<Number>& numbers() {
  static const std::vector<Number> all{{at::kDouble, "float64", 0x1p-53},
                                       {at::kFloat, "float32", 0x1p-24},
                                       {at::kBFloat16, "bfloat16", 0x1p-8},
                                       {at::kHalf, "float16", 0x1p-11}};
  return all;
}

// sign(p) exp(|p| − shift) in the numbers of p.
at::Tensor exponentials(const at::Tensor& scores, bool by_magnitude) {
  const at::Tensor magnitudes = scores.abs();
  const at::Tensor shift = by_magnitude ? magnitudes.max() : scores.max();
  return scores.sign() * at::exp(magnitudes - shift);
}

at::Tensor weights_of(const at::Tensor& scores, bool by_magnitude) {
  const at::Tensor signed_numbers = exponentials(scores, by_magnitude);
  return signed_numbers / signed_numbers.abs().sum();
}

// By the kernel: a query (1, 0, …) and keys (p_j, 0, …) have the scores p_j.
at::Tensor operator_weights(const at::Tensor& scores) {
  at::Tensor keys = at::zeros({1, 1, scores.size(0), 8}, scores.options()),
             query = at::zeros({1, 1, 1, 8}, scores.options());
  keys[0][0].select(1, 0).copy_(scores);
  query.select(3, 0).fill_(1);
  ops::AttentionOptions options;
  options.scale = 1.0;
  return ops::attention_weights(query, keys, "cog", options).flatten();
}

bool finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

std::string list_text(const at::Tensor& tensor) {
  std::string text;
  for (std::int64_t i = 0; i < tensor.size(0); ++i)
    text += (i > 0 ? ", " : "") + fmt::format("{:.4g}", tensor[i].item<double>());
  return text;
}

struct Row {
  std::string name;
  std::vector<double> scores;
};

at::Tensor tensor_of(const std::vector<double>& values, at::ScalarType type) {
  at::Tensor tensor = at::empty({std::ssize(values)}, at::kDouble);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<double>());
  return tensor.to(type);
}

// The scores of a panel and their weights, key by key.
std::vector<pages::LineChart> panel(const std::string& title, const std::vector<double>& scores) {
  const at::Tensor weights = weights_of(tensor_of(scores, at::kDouble), true);
  pages::ChartSeries of_scores{.name = "p", .x = {}, .y = scores, .line = false},
      of_cog{.name = "Cog", .x = {}, .y = {}, .line = false},
      of_softmax{.name = "softmax", .x = {}, .y = {}, .line = false};
  const at::Tensor softmax = at::softmax(tensor_of(scores, at::kDouble), 0);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (pages::ChartSeries* each : {&of_scores, &of_cog, &of_softmax}) each->x.push_back(static_cast<double>(i + 1));
    of_cog.y.push_back(weights[static_cast<std::int64_t>(i)].item<double>());
    of_softmax.y.push_back(softmax[static_cast<std::int64_t>(i)].item<double>());
  }
  const std::vector<pages::ChartMark> zero{{pages::ChartMark::Axis::y, 0, ""}};
  return {{.title = title + ": inner products",
           .x = {.title = "key"},
           .y = {.title = "p"},
           .series = {of_scores},
           .marks = zero},
          {.title = title + ": weights",
           .x = {.title = "key"},
           .y = {.title = "weight", .min = -1, .max = 1},
           .series = {of_cog, of_softmax},
           .marks = zero}};
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const double large = given.number("large");
  const std::vector<double>&positives = given.numbers("positives"), &second = given.numbers("second");
  const std::vector<Row> rows{{"first panel", positives},
                              {"second panel", second},
                              {"{−x, x}", {-large, large}},
                              {"{−x, 1}", {-large, 1}},
                              {"{x, −1}", {large, -1}}};

  LabResult result;
  pages::TextTable table{
      "What comes out, by the shift", {"row", "numbers", "shift by", "largest exponent", "finite", "weights"}, {}};
  std::map<std::string, double> overflows;  // by the shift
  double worst_sum = 0, worst_operator = 0;
  for (const Row& row : rows)
    for (const Number& number : numbers()) {
      const at::Tensor scores = tensor_of(row.scores, number.type);
      for (const bool by_magnitude : {false, true}) {
        const at::Tensor weights = weights_of(scores, by_magnitude);
        const double exponent =
            (scores.abs() - (by_magnitude ? scores.abs().max() : scores.max())).max().item<double>();
        const bool whole = finite(weights) && finite(exponentials(scores, by_magnitude));
        overflows[by_magnitude ? "max |p|" : "max p"] += whole ? 0 : 1;
        table.rows.push_back({row.name, number.name, by_magnitude ? "max |p|" : "max p", number_for_readers(exponent),
                              whole ? "yes" : "no", list_text(weights)});
      }
      const at::Tensor exact = weights_of(scores.to(at::kDouble), true);
      const at::Tensor naive = weights_of(scores, true).to(at::kDouble);
      // Each of the weights is rounded, and so is their sum.
      worst_sum = std::max(worst_sum, (naive.abs().sum() - 1).abs().item<double>() /
                                          (number.precision * static_cast<double>(row.scores.size())));
      if (number.type != at::kDouble)
        worst_operator =
            std::max(worst_operator,
                     (operator_weights(scores).to(at::kDouble) - exact).abs().max().item<double>() / number.precision);
    }

  // Scores that cancel: a signed sum of exactly 0.
  const at::Tensor opposite = exponentials(tensor_of({-3, 3}, at::kFloat), true);
  const at::Tensor divided = opposite / opposite.sum();

  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  const at::Tensor scores = normal_tensor({given.whole("rows"), given.whole("keys")}, 1, draws);
  const at::Tensor weights = scores.sign() * at::softmax(scores.abs(), -1), sums = weights.sum(-1);
  const at::Tensor by_signed_sum = (weights / sums.unsqueeze(-1)).abs().amax(-1);
  const auto share_above = [&](double limit) { return by_signed_sum.gt(limit).to(at::kDouble).mean().item<double>(); };

  const at::Tensor of_second = weights_of(tensor_of(second, at::kDouble), true);
  const at::Tensor second_scores = tensor_of(second, at::kDouble);
  const double exponent_of_second = (second_scores.abs().max() - second_scores.max()).item<double>();
  const bool printed_row = second == std::vector<double>{1, -100};
  const auto overflow = [&](double score, at::ScalarType type) {
    return finite(exponentials(tensor_of({1, score}, type), false)) ? 0.0 : 1.0;
  };
  result.findings = {
      {"Second panel: largest exponent when shifted by max p", printed_row ? follows : nobody,
       printed_row ? near : shown, 99, 0, exponent_of_second, "The paper: e^(|−100| − 1)."},
      {"{−100, 1} shifted by max p: overflows in float32 (1: yes)", follows, near, 1, 0, overflow(-100, at::kFloat)},
      {"The same in bfloat16", follows, near, 1, 0, overflow(-100, at::kBFloat16)},
      {"The same in float16", follows, near, 1, 0, overflow(-100, at::kHalf)},
      {"The same in float64, which the paper does not use", nobody, shown, 0, 0, overflow(-100, at::kDouble)},
      {"Rows that overflow in any numbers, shifted by max |p|", follows, near, 0, 0, overflows["max |p|"]},
      {"Rows that overflow in any numbers, shifted by max p", direction, above, 0, 0, overflows["max p"]},
      {"Second panel: weight of the most negative score", follows, printed_row ? near : shown, -1, 1e-12,
       of_second[second_scores.argmin().item<std::int64_t>()].item<double>()},
      {"First panel: weight of the largest score less that of the most negative, by magnitude", direction, above, 0, 0,
       [&] {
         const at::Tensor first = weights_of(tensor_of(positives, at::kDouble), true);
         return (first.max() - first.min().abs()).item<double>();
       }()},
      {"Largest difference of Σ|a| from 1, over rounding of as many numbers", ours, at_most, 1.5, 0, worst_sum},
      {"Largest difference of the operator's weights from the formula's, over their rounding", ours, at_most, 2, 0,
       worst_operator},
      {"{−3, 3}: sum of the signed numbers, by which nothing can be divided", follows, near, 0, 0,
       opposite.sum().item<double>()},
      {"{−3, 3}: its weights are finite where that sum divides (1: yes)", follows, near, 0, 0,
       finite(divided) ? 1.0 : 0.0},
      {"Random rows: largest |Σ a|", follows, at_most, 1 + 1e-12, 0, sums.abs().max().item<double>()},
      {"Random rows: share that a signed sum would give a weight above 10", direction, above, 0, 0, share_above(10),
       "So a sum need not be 0 to spoil a row: near 0 it makes weights of any size."}};
  pages::ChartSeries spread{.name = "rows", .x = {}, .y = {}};
  const at::Tensor sorted = std::get<0>(sums.sort());
  for (int step = 0; step <= 100; ++step) {
    const std::int64_t place = std::min(sorted.size(0) - 1, sorted.size(0) * step / 100);
    spread.x.push_back(sorted[place].item<double>()), spread.y.push_back(step / 100.0);
  }
  spread.points = false;
  result.charts = panel("First panel", positives);
  for (pages::LineChart& chart : panel("Second panel", second)) result.charts.push_back(std::move(chart));
  result.charts.push_back({.title = "Sums of signed weights of random rows",
                           .x = {.title = "Σ a", .min = -1, .max = 1},
                           .y = {.title = "share of rows below", .min = 0, .max = 1},
                           .series = {spread},
                           .marks = {{pages::ChartMark::Axis::x, 0, ""}}});
  result.tables = {table};
  result.answer = fmt::format(
      "Shifted by the largest score, {:.0f} of {} rows overflow; shifted by the largest magnitude, none. Of random "
      "rows of {} "
      "scores a division by the signed sum would give {:.1f} % a weight above 10, and {{−x, x}} none that is a number.",
      overflows["max p"], rows.size() * numbers().size(), given.whole("keys"), 100 * share_above(10));
  result.assumptions = {{"The first panel's scores are our own.",
                         "The paper's are in a picture that is lost; those of the second are in its text."},
                        {"Numbers of 16 bits are computed in them.",
                         "Each step is rounded to 16 bits, as the formula's code would do. Cogwheel's operators "
                         "compute in float32 and round "
                         "once."},
                        {"Random rows are normal scores.", "Of variance 1, independent."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::rows

namespace cogwheel::labs {
LabEntry rows_lab() {
  return {"rows", "A row of scores, and its weights",
          "Does a row overflow unless the largest magnitude is subtracted, and why are magnitudes summed?",
          rows::parameters(), rows::run};
}
}  // namespace cogwheel::labs
