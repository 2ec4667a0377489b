#include "cogwheel/attention/authoring/card/kernel_measures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "cogwheel/attention/authoring/card/drawn_numbers.h"
#include "cogwheel/attention/authoring/card/tried_scores.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/attention/kernels/pairwise/contiguous_problem.h"
#include "cogwheel/core/bfloat16.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/threads_executor.h"

namespace cogwheel::authoring {
namespace {

// Normal numbers that are the same in every type, as rows of length 1 where `unit`.
template <class T>
void draw(std::vector<T>& rows, std::int64_t width, std::uint64_t seed, bool unit = false) {
  const std::vector<double> numbers = drawn_numbers(rows.size(), seed);
  std::transform(numbers.begin(), numbers.end(), rows.begin(), [](double x) { return static_cast<float>(x); });
  if (!unit) return;
  for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(width)) {
    double squares = 0;
    for (std::int64_t d = 0; d < width; ++d) squares += double(rows[row + d]) * double(rows[row + d]);
    for (std::int64_t d = 0; d < width; ++d)
      rows[row + d] = static_cast<T>(static_cast<float>(double(rows[row + d]) / std::sqrt(squares)));
  }
}

template <class T>
struct DrawnProblem : ContiguousProblem<T> {
  DrawnProblem(const MeasuredMap& map, const PairwiseShape& shape, double scale, bool causal)
      : ContiguousProblem<T>(shape, static_cast<std::int64_t>(map.scalars().size())),
        kernel(pairwise_kernel<T>(map.member())) {
    this->rest.visibility.rule = {.keys = shape.keys, .causal = causal, .diagonal = shape.keys - shape.queries};
    this->rest.scale = static_cast<T>(scale);
    draw(this->query, shape.head_dim, 1, map.is_cosine());
    draw(this->key, shape.head_dim, 2, map.is_cosine());
    draw(this->value, shape.value_dim, 3);
    draw(this->output_gradient, shape.value_dim, 4);
    for (std::size_t i = 0; i < this->parameters.size(); ++i)
      this->parameters[i] = map.scalars()[i % map.scalars().size()];
  }

  void run_forward(const Executor& executor) { kernel.forward(this->forward(), executor); }
  void run_backward(const Executor& executor) { kernel.backward(this->backward(), executor); }

  PairwiseKernel<T> kernel;
};

// ‖fp32 − float64‖ / ‖float64‖ of the outputs of 16 queries.
std::string error_of(const MeasuredMap& map, double scale, std::int64_t keys) {
  const PairwiseShape shape{.queries = 16, .keys = keys, .head_dim = 16, .value_dim = 16};
  const double score_scale = map.is_cosine() ? 1 : scale / 4;  // q·k of 16 normal numbers has a deviation of 4
  DrawnProblem<float> single(map, shape, score_scale, false);
  DrawnProblem<double> exact(map, shape, score_scale, false);
  single.run_forward(SerialExecutor());
  exact.run_forward(SerialExecutor());
  double largest = 0;
  bool is_finite = true;
  for (std::size_t i = 0; i < exact.output.size(); ++i) {
    if (!std::isfinite(exact.output[i])) return "no numbers";
    is_finite &= std::isfinite(single.output[i]);
    largest = std::max(largest, std::abs(exact.output[i]));
  }
  if (!is_finite) return largest > std::numeric_limits<float>::max() ? "overflow" : "no numbers in fp32";
  double difference = 0, size = 0;  // of outputs relative to the largest, whose square might overflow
  for (std::size_t i = 0; largest > 0 && i < exact.output.size(); ++i) {
    difference += std::pow((double(single.output[i]) - exact.output[i]) / largest, 2);
    size += std::pow(exact.output[i] / largest, 2);
  }
  return largest == 0 ? "0" : error_text(std::sqrt(difference / size));
}

float in_bfloat16(float x) { return float_of_bfloat16(bfloat16_of(x)); }

// One row for each score s: s times each of `keys`.
DrawnProblem<float> rows_of(const MeasuredMap& map, const std::vector<double>& scores, const std::vector<float>& keys) {
  constexpr std::int64_t width = 8;
  const PairwiseShape shape{.queries = static_cast<std::int64_t>(scores.size()),
                            .keys = static_cast<std::int64_t>(keys.size()),
                            .head_dim = width,
                            .value_dim = 1};
  DrawnProblem<float> problem(map, shape, 1, false);
  std::fill(problem.query.begin(), problem.query.end(), 0.0f);
  std::fill(problem.key.begin(), problem.key.end(), 0.0f);
  for (std::size_t i = 0; i < scores.size(); ++i) problem.query[i * width] = static_cast<float>(scores[i]);
  for (std::size_t j = 0; j < keys.size(); ++j) problem.key[j * width] = keys[j];
  problem.run_forward(SerialExecutor());
  problem.run_backward(SerialExecutor());
  return problem;
}

}  // namespace

void check_kernel(const MeasuredMap& map, const Finiteness& range, NumericsCard& card) {
  const std::pair<const char*, std::vector<float>> rows[] = {
      {"", {1}}, {" and its opposite", {1, -1}}, {" and 0", {1, 0}}, {", 64 times", std::vector<float>(64, 1)}};
  for (const auto& [beside, keys] : rows) {
    std::vector<double> scores;
    for (const double s : tried_scores(map.largest_score()))
      if (std::all_of(keys.begin(), keys.end(), [&](float key) { return range.is_well_within(s * key); }))
        scores.push_back(s);
    const DrawnProblem<float> problem = rows_of(map, scores, keys);
    const std::size_t width = problem.query.size() / scores.size();
    for (const bool gradient : {false, true}) {
      const auto value = [&](std::size_t i) {
        return gradient ? problem.query_gradient[i * width] : problem.output[i];
      };
      std::size_t first = 0, count = 0;
      for (std::size_t i = scores.size(); i-- > 0;)
        if (!std::isfinite(value(i))) first = i, ++count;
      if (count == 0) continue;
      card.problems.push_back(
          expected_got(card.mechanism + ": " + (gradient ? "gradient" : "output") +
                           " of the fp32 kernel for s = " + exact_text(scores[first]) + beside,
                       "a finite number", exact_text(value(first))) +
          (count == 1 ? "" : ", and for " + std::to_string(count - 1) + " more of the scores tried"));
      return;
    }
  }
}

void measure_errors(const MeasuredMap& map, NumericsCard& card) {
  for (const double scale : {1.0, 10.0, 100.0}) {
    const std::string few = error_of(map, scale, 16), more = error_of(map, scale, 256),
                      many = error_of(map, scale, 4096);
    const std::string errors = few == more && more == many
                                   ? few + " with 16, 256 and 4096 keys"
                                   : few + " with 16 keys, " + more + " with 256 keys, " + many + " with 4096 keys";
    if (map.is_cosine()) return card.facts.emplace_back("fp32 error", errors), void();
    card.facts.emplace_back("fp32 error, scores of size " + exact_text(scale), errors);
  }
}

// The share of scores of normal vectors of 64 numbers whose sign is not that of the exact score. Flips are too rare to
// count: a score flips where it is nearer to 0 than its error, so the share is the mean error times the density at 0.
void measure_flips(bool moves_at_zero, NumericsCard& card) {
  if (!moves_at_zero) {
    card.facts.emplace_back("flipped signs", "harmless: nothing jumps at a score of 0");
    return;
  }
  constexpr std::size_t width = 64, products = 4096;
  const std::vector<double> q = drawn_numbers(width * products, 5), k = drawn_numbers(width * products, 6);
  double single_error = 0, half_error = 0, near = 0;
  for (std::size_t product = 0; product < products; ++product) {
    float single = 0;
    double exact = 0, half = 0;
    for (std::size_t d = product * width; d < (product + 1) * width; ++d) {
      const auto x = static_cast<float>(q[d]), y = static_cast<float>(k[d]);
      single = std::fma(x, y, single);
      exact += double(x) * double(y);
      half += double(in_bfloat16(x)) * double(in_bfloat16(y));
    }
    single_error += std::abs(double(single) - exact) / products;
    half_error += std::abs(half - exact) / products;
    near += std::abs(exact) < 2 ? 1.0 / (4 * products) : 0;  // a quarter of the deviation, 8
  }
  card.facts.emplace_back("flipped signs", error_text(single_error * near) + " of fp32 scores, " +
                                               error_text(half_error * near) + " where q and k are bf16 (64 wide)");
}

void measure_determinism(const MeasuredMap& map, NumericsCard& card) {
  const PairwiseShape shape{
      .query_heads = 4, .value_heads = 2, .queries = 131, .keys = 131, .head_dim = 16, .value_dim = 16};
  const auto bits = [&](int workers) {
    DrawnProblem<float> problem(map, shape, map.is_cosine() ? 1 : 0.25, true);
    const ThreadsExecutor executor(workers);
    problem.run_forward(executor);
    problem.run_backward(executor);
    std::string all;
    const auto append = [&](const auto& numbers) {
      all.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]);
    };
    append(problem.output), append(problem.query_gradient), append(problem.key_gradient);
    append(problem.value_gradient), append(problem.parameter_gradient);
    return all;
  };
  const std::string one = bits(1);
  const bool same = bits(2) == one && bits(3) == one && bits(5) == one;
  card.facts.emplace_back("determinism", same ? "the same bits with 1, 2, 3 and 5 threads, gradients too"
                                              : "bits depend on the number of threads");
  if (!same)
    card.problems.push_back(
        expected_got(card.mechanism + ": determinism", "the same bits for any number of threads", "others"));
}

}  // namespace cogwheel::authoring
