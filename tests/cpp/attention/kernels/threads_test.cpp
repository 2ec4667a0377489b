// The kernels on real threads: the same bits as on one, and, in the build for ThreadSanitizer, no race. The threads are
// the standard library's, whose locks the sanitizer understands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/contiguous_problem.h"
#include "cogwheel/core/threads_executor.h"

namespace cogwheel {
namespace {

// Eight value heads: enough for two workers to take heads, too few for five, who take blocks of queries. Sizes that
// leave tails, and causal rows that see nothing.
constexpr PairwiseShape shape{.batch = 4,
                              .query_heads = 4,
                              .value_heads = 2,
                              .sub_heads = 1,
                              .queries = 131,
                              .keys = 119,
                              .head_dim = 17,
                              .value_dim = 9};
constexpr std::int64_t max_parameters = 4;

template <class T>
std::vector<T> wave(std::int64_t size, double step) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(std::sin(1 + step * static_cast<double>(i)));
  return values;
}

// Biases, ALiBi, local-p and dropout, all at once; or additive scores.
enum class Variant { plain, modified, additive };

template <class T>
struct Results {
  std::vector<T> output, shift, mass, query, key, value, bias;
  std::vector<double> parameters, centers, score_weight;
  bool operator==(const Results&) const = default;
};

template <class T>
Results<T> run(std::string_view mechanism, std::string_view isa, Variant variant, const Executor& executor) {
  ContiguousProblem<T> problem(shape, max_parameters);
  const auto fill = [](std::vector<T>& numbers, double step) {
    numbers = wave<T>(static_cast<std::int64_t>(numbers.size()), step);
  };
  fill(problem.query, 0.7), fill(problem.key, 1.3), fill(problem.value, 2.1), fill(problem.output_gradient, 0.9);
  std::fill(problem.parameters.begin(), problem.parameters.end(), 1.0);
  problem.rest.visibility.rule = {.keys = shape.keys, .causal = true, .diagonal = shape.keys - shape.queries};
  problem.rest.scale = T(0.4);

  const std::int64_t query_rows = shape.batch * shape.query_heads * shape.queries;
  const auto bias = wave<T>(query_rows * shape.keys, 0.3),
             score_weight = wave<T>(shape.query_heads * shape.head_dim, 1.7);
  auto centers = wave<T>(query_rows, 0.11);
  for (T& center : centers) center = T(40) * (center + 1);
  const auto slopes = wave<double>(shape.query_heads, 0.01);
  const ScoresView<const T> bias_view{bias.data(), shape.query_heads * shape.queries * shape.keys,
                                      shape.queries * shape.keys, shape.keys, 1};
  if (variant == Variant::modified)
    problem.rest.modifiers = {.softcap = 3,
                              .bias = bias_view,
                              .energy_bias = {},
                              .alibi = slopes.data(),
                              .alibi_diagonal = 0,
                              .centers = centers.data(),
                              .sigma = 20,
                              .dropout = 0.2,
                              .seed = 7};
  if (variant == Variant::additive) problem.rest.score_weight = score_weight.data();

  Results<T> results;
  results.bias.resize(bias.size());
  results.centers.resize(centers.size());
  results.score_weight.resize(score_weight.size());
  const PairwiseKernel<T> kernel = pairwise_kernel<T>(mechanism, cpu_device, isa);
  kernel.forward(problem.forward(), executor);
  PairwiseBackward<T> backward = problem.backward();
  if (variant == Variant::modified) {
    backward.bias_gradient = results.bias.data();
    backward.centers_gradient = results.centers.data();
  }
  if (variant == Variant::additive) backward.score_weight_gradient = results.score_weight.data();
  kernel.backward(backward, executor);
  results.output = problem.output, results.shift = problem.shift, results.mass = problem.mass;
  results.query = problem.query_gradient, results.key = problem.key_gradient, results.value = problem.value_gradient;
  results.parameters = problem.parameter_gradient;
  return results;
}

class Threads : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam() && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

TEST_P(Threads, GiveTheBitsOfOne) {
  std::set<std::string_view> mechanisms;
  for (const KernelEntry& entry : available_kernels(GetParam()))
    if (entry.chosen) mechanisms.insert(entry.mechanism);
  for (std::string_view mechanism : mechanisms)
    for (Variant variant : {Variant::plain, Variant::modified, Variant::additive}) {
      const Results<float> expected = run<float>(mechanism, GetParam(), variant, SerialExecutor());
      const Results<double> expected_double = run<double>(mechanism, GetParam(), variant, SerialExecutor());
      for (int workers : {2, 5}) {
        const ThreadsExecutor threads(workers);
        EXPECT_TRUE(run<float>(mechanism, GetParam(), variant, threads) == expected) << mechanism << " " << workers;
        EXPECT_TRUE(run<double>(mechanism, GetParam(), variant, threads) == expected_double)
            << mechanism << " " << workers;
      }
    }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const InstructionSet& set : instruction_sets()) names.push_back(set.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Threads, ::testing::ValuesIn(names()),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace cogwheel
