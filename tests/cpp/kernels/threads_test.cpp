// The kernels on real threads: the same bits as on one, and, in the build for ThreadSanitizer, no race. The threads are
// the standard library's, whose locks a sanitizer knows.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cogwheel/core/parallel.h"
#include "cogwheel/kernels/isa.h"
#include "cogwheel/kernels/pairwise/pairwise.h"

namespace cogwheel {
namespace {

class ThreadsExecutor final : public Executor {
 public:
  explicit ThreadsExecutor(int workers) : workers_(workers) {}
  int workers() const override { return workers_; }
  void run(std::int64_t tasks, const Task& task) const override {
    std::atomic<std::int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers_; ++worker)
      threads.emplace_back([&, worker] {
        for (std::int64_t index; (index = next.fetch_add(1)) < tasks;) task(index, worker);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int workers_;
};

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
constexpr std::size_t most_parameters = 4;

template <class T>
std::vector<T> wave(std::int64_t size, double step) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(std::sin(1 + step * static_cast<double>(i)));
  return values;
}

template <class T>
HeadsView<T> view(std::vector<std::remove_const_t<T>>& data, std::int64_t heads, std::int64_t rows,
                  std::int64_t width) {
  return {data.data(), heads * rows * width, rows * width, width};
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
  const std::int64_t query_rows = shape.batch * shape.query_heads * shape.queries,
                     key_rows = shape.batch * shape.value_heads * shape.keys;
  auto query = wave<T>(query_rows * shape.head_dim, 0.7), key = wave<T>(key_rows * shape.head_dim, 1.3),
       value = wave<T>(key_rows * shape.value_dim, 2.1), gradient = wave<T>(query_rows * shape.value_dim, 0.9);
  const std::vector<double> theta(static_cast<std::size_t>(shape.query_heads) * most_parameters, 1.0);
  Results<T> results{
      .output = std::vector<T>(gradient.size()),
      .shift = std::vector<T>(static_cast<std::size_t>(query_rows)),
      .mass = std::vector<T>(static_cast<std::size_t>(query_rows)),
      .query = std::vector<T>(query.size()),
      .key = std::vector<T>(key.size()),
      .value = std::vector<T>(value.size()),
      .bias = std::vector<T>(static_cast<std::size_t>(query_rows * shape.keys)),
      .parameters = std::vector<double>(theta.size()),
      .centers = std::vector<double>(static_cast<std::size_t>(query_rows)),
      .score_weight = std::vector<double>(static_cast<std::size_t>(shape.query_heads * shape.head_dim)),
  };
  PairwiseProblem<T> problem;
  problem.shape = shape;
  problem.visibility = {.rule = {.keys = shape.keys, .causal = true, .diagonal = shape.keys - shape.queries}};
  problem.scale = T(0.4);
  problem.parameters = theta.data();
  problem.query = view<const T>(query, shape.query_heads, shape.queries, shape.head_dim);
  problem.key = view<const T>(key, shape.value_heads, shape.keys, shape.head_dim);
  problem.value = view<const T>(value, shape.value_heads, shape.keys, shape.value_dim);

  const auto bias = wave<T>(query_rows * shape.keys, 0.3),
             score_weight = wave<T>(shape.query_heads * shape.head_dim, 1.7);
  auto centers = wave<T>(query_rows, 0.11);
  for (T& center : centers) center = T(40) * (center + 1);
  const auto slopes = wave<double>(shape.query_heads, 0.01);
  const ScoresView<const T> bias_view{bias.data(), shape.query_heads * shape.queries * shape.keys,
                                      shape.queries * shape.keys, shape.keys, 1};
  if (variant == Variant::modified)
    problem.modifiers = {.bias = bias_view,
                         .energy_bias = {},
                         .alibi = slopes.data(),
                         .alibi_diagonal = 0,
                         .centers = centers.data(),
                         .sigma = 20,
                         .dropout = 0.2,
                         .seed = 7};
  if (variant == Variant::additive) problem.score_weight = score_weight.data();

  const PairwiseKernel<T> kernel = pairwise_kernel<T>(mechanism, isa);
  PairwiseForward<T> forward;
  static_cast<PairwiseProblem<T>&>(forward) = problem;
  forward.output = view<T>(results.output, shape.query_heads, shape.queries, shape.value_dim);
  forward.shift = results.shift.data();
  forward.mass = results.mass.data();
  kernel.forward(forward, executor);

  PairwiseBackward<T> backward;
  static_cast<PairwiseProblem<T>&>(backward) = problem;
  backward.output = view<const T>(results.output, shape.query_heads, shape.queries, shape.value_dim);
  backward.output_gradient = view<const T>(gradient, shape.query_heads, shape.queries, shape.value_dim);
  backward.shift = results.shift.data();
  backward.mass = results.mass.data();
  backward.query_gradient = view<T>(results.query, shape.query_heads, shape.queries, shape.head_dim);
  backward.key_gradient = view<T>(results.key, shape.value_heads, shape.keys, shape.head_dim);
  backward.value_gradient = view<T>(results.value, shape.value_heads, shape.keys, shape.value_dim);
  backward.parameter_gradient = results.parameters.data();
  if (variant == Variant::modified) {
    backward.bias_gradient = results.bias.data();
    backward.center_gradient = results.centers.data();
  }
  if (variant == Variant::additive) backward.score_weight_gradient = results.score_weight.data();
  kernel.backward(backward, executor);
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
