// Linear attention three ways: with a mask, (L ∘ ψ(Q)ψ(K)ᵀ)V; as sums over the past, ψ(Q) cumsum(ψ(K)ᵀV); and as a
// recurrent network that walks over the tokens. They are one function; their time by the length is not. Katharopoulos
// et al., "Transformers are RNNs" (2020).
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svd.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/matrix_rank.h"
#include "cogwheel/ops/recurrent/feature_maps.h"
#include "cogwheel/ops/recurrent/recurrent.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/turns.h"

namespace cogwheel::labs::linear_attention {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {32}, {8, 256}, "d, of queries, keys and values"},
           {"lengths", {256, 512, 1024, 2048, 4096}, {8, 16384}, "N, tokens; rising, two at least", whole, true},
           {"checked", {512}, {8, 2048}, "N at which all ways are compared"},
           {"rank_tokens", {256}, {16, 1024}, "N of the matrix whose rank is counted"},
           {"repeats", {5}, {1, 1000}, "rounds in which the ways take turns; the fastest counts"},
           {"seconds", {1}, {0, 60}, "that these rounds take at least", LabParameter::Kind::real},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  given.expect_rising("lengths");
  if (given.wholes("lengths").size() < 2)
    throw UsageError(expected_got("lengths", "two at least", std::to_string(given.wholes("lengths").size())));
}

struct Tokens {
  at::Tensor query, key, value;  // [1, 1, N, d], queries and keys after ψ = elu + 1
};

Tokens draw_tokens(std::int64_t length, std::int64_t width, at::ScalarType type, Draws& draws) {
  const auto drawn = [&] { return normal_tensor({1, 1, length, width}, 1, draws).to(type); };
  const auto features = [](const at::Tensor& x) { return ops::feature_map("elu_plus_one", x, std::nullopt); };
  const at::Tensor query = features(drawn()), key = features(drawn());
  return {query, key, drawn()};
}

at::Tensor masked(const Tokens& t) { return at::matmul(at::matmul(t.query, t.key.transpose(2, 3)).tril(), t.value); }

// Row i is q_i Σ_{j ≤ i} k_jᵀ v_j; holds N·d·d numbers.
at::Tensor cumulative(const Tokens& t) {
  const at::Tensor sums = (t.key.unsqueeze(4) * t.value.unsqueeze(3)).cumsum(2);
  return at::matmul(t.query.unsqueeze(3), sums).squeeze(3);
}

at::Tensor walk(const Tokens& t) {
  ops::RecurrentOptions options;
  options.scale = 1.0;
  return std::get<0>(ops::recurrent(t.query, t.key, t.value, "linear_attention", options));
}

at::Tensor unmasked(const Tokens& t) { return at::matmul(at::matmul(t.query, t.key.transpose(2, 3)), t.value); }
at::Tensor reordered(const Tokens& t) { return at::matmul(t.query, at::matmul(t.key.transpose(2, 3), t.value)); }

double apart(const at::Tensor& one, const at::Tensor& other) {
  return ((one - other).abs().max() / other.abs().max()).item<double>();
}

struct Way {
  std::string name;
  at::Tensor (*run)(const Tokens&);
  double expected;                                            // the exponent of its growth
  std::function<double(double length, double width)> floats;  // that it holds beside its input and output
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all{
      {"masked, (L ∘ QKᵀ)V", masked, 2, [](double n, double) { return n * n; }},
      {"sums, Q cumsum(KᵀV)", cumulative, 1, [](double n, double d) { return n * d * d; }},
      {"walk, S_t = S_{t−1} + k_tᵀv_t", walk, 1, [](double, double d) { return d * d; }},
      {"without a mask, (QKᵀ)V", unmasked, 2, [](double n, double) { return n * n; }},
      {"without a mask, Q(KᵀV)", reordered, 1, [](double, double d) { return d * d; }}};
  return all;
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  const std::int64_t width = given.whole("width");
  const Tokens exact = draw_tokens(given.whole("checked"), width, at::kDouble, draws);
  const Tokens single{exact.query.to(at::kFloat), exact.key.to(at::kFloat), exact.value.to(at::kFloat)};
  const at::Tensor truth = masked(exact);

  // ψ of finite size gives QKᵀ a rank of at most that size; the exponential of each entry has all of N.
  const std::int64_t tokens = given.whole("rank_tokens");
  const at::Tensor query = normal_tensor({tokens, width}, 1, draws), key = normal_tensor({tokens, width}, 1, draws);
  const at::Tensor scores = at::matmul(query, key.t()) / std::sqrt(static_cast<double>(width));
  const at::Tensor features =
      at::matmul(ops::feature_map("elu_plus_one", query.view({1, 1, tokens, width}), {})[0][0],
                 ops::feature_map("elu_plus_one", key.view({1, 1, tokens, width}), {})[0][0].t());
  const auto rank_of_exponential = static_cast<double>(interpret::matrix_rank(scores.exp()).numerical);
  const auto rank_of_features = static_cast<double>(interpret::matrix_rank(features).numerical);

  const std::vector<std::int64_t> lengths = given.wholes("lengths");
  std::vector<std::vector<double>> seconds(ways().size());
  for (const std::int64_t length : lengths) {
    const Tokens t = draw_tokens(length, width, at::kFloat, draws);
    std::vector<std::function<void()>> works;
    for (const Way& way : ways()) works.emplace_back([&t, &way] { way.run(t); });
    const std::vector<double> fastest =
        fastest_in_turns(works, given.whole("repeats"), Clock::thread, given.number("seconds"));
    for (std::size_t i = 0; i < fastest.size(); ++i) seconds[i].push_back(fastest[i]);
  }
  // Growth is that of the longer half, where what every call costs counts least.
  const auto growth = [&](std::size_t way) {
    std::vector<double> x, y;
    for (std::size_t i = std::min(lengths.size() / 2, lengths.size() - 2); i < lengths.size(); ++i)
      x.push_back(std::log(static_cast<double>(lengths[i]))), y.push_back(std::log(seconds[way][i]));
    return fit_line(x, y).slope;
  };

  LabResult result{.answer = "", .findings = {}, .timed = true};
  const auto same = [&](const std::string& what, const at::Tensor& found, const at::Tensor& other, double tolerance) {
    result.findings.push_back({what, follows, near, 0, tolerance, apart(found, other)});
  };
  same("Sums less masked, over the largest output, float64", cumulative(exact), truth, 1e-12);
  same("Walk less masked, float64", walk(exact), truth, 1e-12);
  same("Sums less masked, float32", cumulative(single).to(at::kDouble), truth, 1e-5);
  same("Walk less masked, float32", walk(single).to(at::kDouble), truth, 1e-5);
  same("Without a mask: Q(KᵀV) less (QKᵀ)V, float64", reordered(exact), unmasked(exact), 1e-12);
  result.findings.push_back(
      {"Q(KᵀV) in place of the causal sum: largest difference, of the largest output", direction, above, 1e-3, 0,
       apart(reordered(exact), truth),
       "The mask breaks associativity, so the order that saves the square is that of a text without "
       "one."});
  result.findings.push_back({"Rank of ψ(Q)ψ(K)ᵀ over the number of features", follows, near, 1, 0,
                             rank_of_features / static_cast<double>(std::min(width, tokens))});
  result.findings.push_back({fmt::format("Rank of the exponential of each entry of QKᵀ, of {}", tokens), ours, above,
                             static_cast<double>(width), 0, rank_of_exponential,
                             "Were exp(q·k) = ψ(q)·ψ(k) with features of finite size, the rank could not exceed that "
                             "size at any length. In exact "
                             "arithmetic it is the length; what is counted is what double precision can tell."});
  pages::TextTable table{fmt::format("Milliseconds by N, d = {}", width), {"N"}, {}};
  pages::LineChart chart{.title = "Time by length",
                         .x = {.title = "N, tokens", .logarithmic = true},
                         .y = {.title = "ms", .logarithmic = true},
                         .series = {}},
      memory{.title = "Numbers held beside input and output",
             .x = {.title = "N, tokens", .logarithmic = true},
             .y = {.title = "numbers", .logarithmic = true},
             .series = {}};
  const std::vector<double> x(lengths.begin(), lengths.end());
  for (const std::int64_t length : lengths) table.rows.push_back({number_for_readers(static_cast<double>(length))});
  for (std::size_t way = 0; way < ways().size(); ++way) {
    const Way& each = ways()[way];
    std::vector<double> milliseconds, floats;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      milliseconds.push_back(1e3 * seconds[way][i]);
      floats.push_back(each.floats(x[i], static_cast<double>(width)));
      table.rows[i].push_back(fmt::format("{:.3f}", milliseconds.back()));
    }
    table.columns.push_back(each.name);
    chart.series.push_back({.name = each.name, .x = x, .y = milliseconds});
    memory.series.push_back({.name = each.name, .x = x, .y = floats, .points = false, .expected = true});
    result.findings.push_back(
        {"Time of " + each.name + ": exponent of N (by the formula " + number_for_readers(each.expected) + ")",
         direction, each.expected > 1 ? above : at_most, 1.5, 0, growth(way)});
  }
  result.findings.push_back({fmt::format("Time of masked over the walk, N = {}", lengths.back()), direction, above, 1,
                             0, seconds[0].back() / seconds[2].back()});
  result.charts = {chart, memory};
  result.tables = {table};
  result.answer = fmt::format(
      "Masked, as sums and as a walk it is one function, to rounding. By the length the masked form "
      "takes time as N^{:.2f}, the walk as N^{:.2f}; at N = {} the walk takes 1/{:.1f} of its time.",
      growth(0), growth(2), lengths.back(), seconds[0].back() / seconds[2].back());
  result.assumptions = {
      {"ψ is elu + 1, without a normaliser.",
       "As in the lecture, whose formulas have none; the cited paper "
       "divides by ψ(q)·Σψ(k)."},
      {"Times are processor times of one thread of this machine.",
       "The fastest of several rounds in which the ways take turns. The first three are causal, and the "
       "growth is that of the longer half of the lengths. The mask is made of a matrix that is computed "
       "whole, as the formula has it."},
      {"Numbers held are counted by the formulas.", "Of the widest tensor in between."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::linear_attention

namespace cogwheel::labs {
LabEntry linear_attention_lab() {
  return {"linear-attention",
          "Masked, as sums, as a recurrent network",
          "Is linear attention with a mask the same as a cumulative sum and as a recurrent network, and linear in the "
          "length?",
          linear_attention::parameters(),
          linear_attention::run,
          linear_attention::check};
}
}  // namespace cogwheel::labs
