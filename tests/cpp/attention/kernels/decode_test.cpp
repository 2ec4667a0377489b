// Few queries over many keys, which the engine splits into chunks, against dense double formulas written here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/contiguous_problem.h"
#include "cogwheel/core/parallel.h"
#include "engines_under_test.h"
#include "reversed_executor.h"

namespace cogwheel {
namespace {

// Two entries of different lengths, each value head with three query heads or, for a mixture, with four over two key
// heads. 1,111 keys are three chunks, the last of them with a tail.
struct Call {
  PairwiseShape shape;
  std::vector<double> query, key, value, theta;
  std::vector<std::int64_t> lengths, first_positions;
  std::int64_t window = 0;
  double scale = 0.3;

  explicit Call(std::int64_t queries = 3, std::int64_t sub_heads = 1)
      : shape{.batch = 2,
              .query_heads = sub_heads == 1 ? 6 : 8,
              .value_heads = 2,
              .sub_heads = sub_heads,
              .queries = queries,
              .keys = 1111,
              .head_dim = 9,
              .value_dim = 5},
        lengths{1111, 600},
        first_positions{1111 - queries, 600 - queries} {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& values, std::int64_t count) {
      values.resize(static_cast<std::size_t>(count));
      for (double& each : values) each = normal(random);
    };
    fill(query, shape.batch * shape.query_heads * shape.queries * shape.head_dim);
    fill(key, shape.batch * shape.key_heads() * shape.keys * shape.head_dim);
    fill(value, shape.batch * shape.value_heads * shape.keys * shape.value_dim);
    fill(theta, shape.query_heads);
  }

  std::size_t row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return static_cast<std::size_t>((b * shape.query_heads + h) * shape.queries + i);
  }
  const double* key_row(std::int64_t b, std::int64_t h, std::int64_t j) const {
    return key.data() + ((b * shape.key_heads() + h) * shape.keys + j) * shape.head_dim;
  }
  double* value_row(std::int64_t b, std::int64_t h, std::int64_t j) {
    return value.data() + ((b * shape.value_heads + h) * shape.keys + j) * shape.value_dim;
  }
};

struct Result {
  std::vector<double> output, shift, mass;
  bool operator==(const Result&) const = default;
};

// The keys of a call in panels, with NaN beyond the last one.
std::vector<double> panels_of_keys(const Call& call) {
  const PairwiseShape& s = call.shape;
  const std::int64_t head_size = panels_of(s.keys) * keys_of_panel * s.head_dim;
  std::vector<double> panels(static_cast<std::size_t>(s.batch * s.key_heads() * head_size),
                             std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t h = 0; h < s.batch * s.key_heads(); ++h)
    for (std::int64_t j = 0; j < s.keys; ++j)
      for (std::int64_t d = 0; d < s.head_dim; ++d)
        panels[static_cast<std::size_t>(h * head_size + j / keys_of_panel * keys_of_panel * s.head_dim +
                                        d * keys_of_panel + j % keys_of_panel)] = call.key_row(0, h, j)[d];
  return panels;
}

Result run(const Call& call, const PairwiseKernel<double>& kernel, const Executor& executor = SerialExecutor(),
           const std::vector<double>& panels = {}) {
  ContiguousProblem<double> problem(call.shape, 1);
  problem.query = call.query, problem.key = call.key, problem.value = call.value, problem.parameters = call.theta;
  for (std::vector<double>* written : {&problem.output, &problem.shift, &problem.mass})
    std::fill(written->begin(), written->end(), std::numeric_limits<double>::quiet_NaN());
  problem.rest.visibility = {.rule = {.keys = call.shape.keys, .causal = true, .window = call.window},
                             .key_lengths = call.lengths.data(),
                             .first_positions = call.first_positions.data()};
  problem.rest.scale = call.scale;
  PairwiseForward<double> forward = problem.forward();
  if (!panels.empty()) {
    forward.key = {};
    const auto of_head = static_cast<std::int64_t>(panels.size()) / (call.shape.batch * call.shape.key_heads());
    forward.key_panels =
        KeyPanels<double>({panels.data(), call.shape.key_heads() * of_head, of_head, 0}, call.shape.head_dim);
  }
  kernel.forward(forward, executor);
  return {problem.output, problem.shift, problem.mass};
}

// f = g = exp and N = G, or N = G + exp(sink), or the sigmoid with N = 1.
enum class Map { softmax, softmax_off_by_one, sigmoid };

void expect_agrees(Call call, Map map, const PairwiseKernel<double>& kernel) {
  const PairwiseShape& s = call.shape;
  const Result result = run(call, kernel);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.query_heads; ++h)
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const std::int64_t end = call.first_positions[static_cast<std::size_t>(b)] + i + 1;
        const std::int64_t begin = call.window == 0 ? 0 : std::max<std::int64_t>(0, end - call.window);
        const double theta = call.theta[static_cast<std::size_t>(h)];
        std::vector<double> sums(static_cast<std::size_t>(s.value_dim));
        double mass = 0;
        for (std::int64_t j = begin; j < end; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            score += call.scale * call.query[call.row(b, h, i) * static_cast<std::size_t>(s.head_dim) + d] *
                     call.key_row(b, s.key_head(h), j)[d];
          const double weight = map == Map::sigmoid ? 1 / (1 + std::exp(-score - theta)) : std::exp(score);
          mass += weight;
          for (std::int64_t x = 0; x < s.value_dim; ++x)
            sums[static_cast<std::size_t>(x)] += weight * call.value_row(b, s.value_head(h), j)[x];
        }
        const double total = map == Map::sigmoid ? 1 : mass + (map == Map::softmax_off_by_one ? std::exp(theta) : 0.0);
        const std::size_t row = call.row(b, h, i);
        for (std::int64_t x = 0; x < s.value_dim; ++x)
          ASSERT_NEAR(result.output[row * static_cast<std::size_t>(s.value_dim) + x],
                      sums[static_cast<std::size_t>(x)] / total, 1e-12 * (map == Map::sigmoid ? 1000 : 1));
        if (map != Map::sigmoid) {
          ASSERT_NEAR(result.mass[row] * std::exp(result.shift[row]) / mass, 1, 1e-12);
        }
      }
}

class DecodeEngine : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

TEST_P(DecodeEngine, MergesChunksExactly) {
  for (const std::int64_t queries : {1, 3, 16})
    for (const std::int64_t sub_heads : {1, 2}) {
      const Call call(queries, sub_heads);
      expect_agrees(call, Map::softmax, GetParam()->softmax);
      expect_agrees(call, Map::softmax_off_by_one, GetParam()->softmax_off_by_one);
      expect_agrees(call, Map::sigmoid, GetParam()->sigmoid);
    }
}

// By the decode engine, and by the other one from 17 queries on.
TEST_P(DecodeEngine, ReadsKeysInPanelsToTheBit) {
  for (const std::int64_t queries : {1, 3, 40})
    for (const std::int64_t window : {0, 70}) {
      Call call(queries, 2);
      call.window = window;
      EXPECT_TRUE(run(call, GetParam()->softmax) ==
                  run(call, GetParam()->softmax, SerialExecutor(), panels_of_keys(call)));
    }
}

TEST_P(DecodeEngine, CountsASinkOnceHoweverLarge) {
  Call call;
  for (double& theta : call.theta) theta = 30;
  expect_agrees(call, Map::softmax_off_by_one, GetParam()->softmax_off_by_one);
}

TEST_P(DecodeEngine, SlidesWindowsOverChunks) {
  for (const std::int64_t window : {1, 64, 700}) {
    Call call(3, 2);
    call.window = window;
    expect_agrees(call, Map::softmax, GetParam()->softmax);
  }
}

TEST_P(DecodeEngine, TakesExtremeScores) {
  Call call;
  for (double& q : call.query) q *= 1e4;
  for (double value : run(call, GetParam()->softmax).output) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(DecodeEngine, GivesZeroWhereNothingIsSeen) {
  Call call;
  call.lengths[1] = 0;
  const Result result = run(call, GetParam()->softmax);
  for (std::size_t i = result.output.size() / 2; i < result.output.size(); ++i) ASSERT_EQ(result.output[i], 0);
}

TEST_P(DecodeEngine, KeepsNaNsToTheRowsThatSeeThem) {
  Call call;
  const Result clean = run(call, GetParam()->softmax);
  call.value_row(0, 0, 1110)[0] = std::numeric_limits<double>::quiet_NaN();  // only the last query sees it
  call.value_row(1, 0, 900)[0] = std::numeric_limits<double>::infinity();    // beyond the second entry's length
  const Result result = run(call, GetParam()->softmax);
  const std::int64_t width = call.shape.value_dim;
  for (std::size_t at = 0; at < clean.output.size(); ++at) {
    const auto row = static_cast<std::int64_t>(at) / width;
    const bool sees = row % call.shape.queries == 2 && row / call.shape.queries < 3;  // of entry 0 and value head 0
    if (sees && static_cast<std::int64_t>(at) % width == 0)
      EXPECT_TRUE(std::isnan(result.output[at])) << at;
    else
      EXPECT_NEAR(result.output[at], clean.output[at], 1e-14) << at;
  }
}

TEST_P(DecodeEngine, GivesTheSameBitsForAnyNumberAndOrderOfWorkers) {
  const Call call(3, 2);
  EXPECT_TRUE(run(call, GetParam()->softmax_off_by_one) ==
              run(call, GetParam()->softmax_off_by_one, ReversedExecutor(64)));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, DecodeEngine, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
