// The engine against dense double formulas written here, with gradients by central differences of those formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
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

constexpr double sigma = 10;

// One call: two batch entries, four query heads over two key heads, odd sizes that leave tails everywhere.
struct Call {
  PairwiseShape shape{.batch = 2,
                      .query_heads = 4,
                      .value_heads = 2,
                      .sub_heads = 1,
                      .queries = 67,
                      .keys = 83,
                      .head_dim = 9,
                      .value_dim = 5};
  Visibility visibility{.keys = 83, .causal = true, .diagonal = 5, .window = 40};
  double scale = 0.3;
  std::vector<double> query, key, value, gradient, theta;
  std::vector<double> centers;  // of Gaussian windows; empty: none
  bool identity_values = false;

  Call() {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& values, std::int64_t count) {
      values.resize(static_cast<std::size_t>(count));
      for (double& value_ : values) value_ = normal(random);
    };
    fill(query, shape.batch * shape.query_heads * shape.queries * shape.head_dim);
    fill(key, shape.batch * shape.value_heads * shape.keys * shape.head_dim);
    fill(value, shape.batch * shape.value_heads * shape.keys * shape.value_dim);
    fill(gradient, shape.batch * shape.query_heads * shape.queries * shape.value_dim);
    fill(theta, shape.query_heads);
  }
};

struct Result {
  std::vector<double> output, query, key, value, theta;
};

// weights[j] of the visible scores of one row.
using Dense = std::function<std::vector<double>(const std::vector<double>& scores, double theta)>;
using Window = std::function<double(std::int64_t query, std::int64_t key)>;

double dense_loss(const Call& call, const Dense& dense, const Window& window, std::vector<double>* output = nullptr) {
  const PairwiseShape& s = call.shape;
  double loss = 0;
  if (output) output->assign(call.gradient.size(), 0);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.query_heads; ++h)
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const KeyRange seen = call.visibility.of(i);
        std::vector<double> scores;
        for (std::int64_t j = seen.begin; j < seen.end; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            dot += call.query[static_cast<std::size_t>(((b * s.query_heads + h) * s.queries + i) * s.head_dim + d)] *
                   call.key[static_cast<std::size_t>(((b * s.value_heads + h / 2) * s.keys + j) * s.head_dim + d)];
          scores.push_back(call.scale * dot);
        }
        if (scores.empty()) continue;
        const std::vector<double> weights = dense(scores, call.theta[static_cast<std::size_t>(h)]);
        for (std::int64_t x = 0; x < s.value_dim; ++x) {
          double sum = 0;
          for (std::int64_t j = seen.begin; j < seen.end; ++j)
            sum += weights[static_cast<std::size_t>(j - seen.begin)] * window(i, j) *
                   call.value[static_cast<std::size_t>(((b * s.value_heads + h / 2) * s.keys + j) * s.value_dim + x)];
          const auto at = static_cast<std::size_t>(((b * s.query_heads + h) * s.queries + i) * s.value_dim + x);
          loss += sum * call.gradient[at];
          if (output) (*output)[at] = sum;
        }
      }
  return loss;
}

Result run(const Call& call, const PairwiseKernel<double>& kernel, const Executor& executor) {
  ContiguousProblem<double> problem(call.shape, 1);
  problem.query = call.query, problem.key = call.key, problem.value = call.value;
  problem.output_gradient = call.gradient, problem.parameters = call.theta;
  for (std::vector<double>* written : {&problem.output, &problem.shift, &problem.mass, &problem.query_gradient,
                                       &problem.key_gradient, &problem.value_gradient, &problem.parameter_gradient})
    std::fill(written->begin(), written->end(), std::numeric_limits<double>::quiet_NaN());
  problem.rest.visibility.rule = call.visibility;
  if (!call.centers.empty()) {
    problem.rest.modifiers.centers = call.centers.data();
    problem.rest.modifiers.sigma = sigma;
  }
  problem.rest.scale = call.scale;
  problem.rest.identity_values = call.identity_values;
  kernel.forward(problem.forward(), executor);
  kernel.backward(problem.backward(), executor);
  return {problem.output, problem.query_gradient, problem.key_gradient, problem.value_gradient,
          problem.parameter_gradient};
}

void expect_agrees(Call call, const PairwiseKernel<double>& kernel, const Dense& dense, const Window& window,
                   bool learnable) {
  const Result result = run(call, kernel, SerialExecutor());
  std::vector<double> expected;
  dense_loss(call, dense, window, &expected);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(result.output[i], expected[i], 1e-7) << "output " << i;

  const auto expect_gradient = [&](const char* name, std::vector<double>& input, const std::vector<double>& gradient) {
    // Every 37th element: a dense formula for each costs the whole problem.
    for (std::size_t i = 0; i<input.size(); i += input.size()> 10 ? 37 : 1) {
      const double at = input[i], step = 1e-5;
      input[i] = at + step;
      const double up = dense_loss(call, dense, window);
      input[i] = at - step;
      const double down = dense_loss(call, dense, window);
      input[i] = at;
      ASSERT_NEAR(gradient[i], (up - down) / (2 * step), 2e-6) << name << " " << i;
    }
  };
  expect_gradient("query", call.query, result.query);
  expect_gradient("key", call.key, result.key);
  expect_gradient("value", call.value, result.value);
  if (learnable) expect_gradient("theta", call.theta, result.theta);
}

double no_window(std::int64_t, std::int64_t) { return 1; }

class Engine : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

TEST_P(Engine, SinkTakesPartInTheShiftAndLearns) {
  const Dense dense = [](const std::vector<double>& scores, double sink) {
    double total = std::exp(sink);
    for (double s : scores) total += std::exp(s);
    std::vector<double> weights;
    for (double s : scores) weights.push_back(std::exp(s) / total);
    return weights;
  };
  expect_agrees(Call(), GetParam()->softmax_off_by_one, dense, no_window, true);
}

TEST_P(Engine, ServesMapsWithoutMassOrEnergy) {
  const Dense dense = [](const std::vector<double>& scores, double shift) {
    std::vector<double> weights;
    for (double s : scores) weights.push_back(1 / (1 + std::exp(-(s + shift))));
    return weights;
  };
  expect_agrees(Call(), GetParam()->sigmoid, dense, no_window, true);
}

TEST_P(Engine, TellsMapsHowManyKeysARowSees) {
  Call call;
  for (double& t : call.theta) t = std::numeric_limits<double>::quiet_NaN();  // the default shift, −log(visible keys)
  const Dense dense = [](const std::vector<double>& scores, double) {
    std::vector<double> weights;
    for (double s : scores) weights.push_back(1 / (1 + static_cast<double>(scores.size()) * std::exp(-s)));
    return weights;
  };
  expect_agrees(call, GetParam()->sigmoid, dense, no_window, false);
}

TEST_P(Engine, MultipliesAfterTheMapAndNeverInTheMass) {
  const Dense dense = [](const std::vector<double>& scores, double) {
    double total = 0;
    for (double s : scores) total += std::exp(s);
    std::vector<double> weights;
    for (double s : scores) weights.push_back(std::exp(s) / total);
    return weights;
  };
  Call call;
  for (std::int64_t head = 0; head < call.shape.batch * call.shape.query_heads; ++head)
    for (std::int64_t i = 0; i < call.shape.queries; ++i) call.centers.push_back(static_cast<double>(i) + 0.25);
  expect_agrees(
      call, GetParam()->softmax, dense,
      [](std::int64_t i, std::int64_t j) {
        const double distance = static_cast<double>(j - i) - 0.25;
        return std::exp(-distance * distance / (2 * sigma * sigma));
      },
      false);
}

TEST_P(Engine, VeryNegativeScoresLeaveEverythingToTheSink) {
  Call call;
  for (double& t : call.theta) t = 0;
  for (double& q : call.query) q = std::abs(q) * 1e3;
  for (double& k : call.key) k = -std::abs(k);
  for (double value : run(call, GetParam()->softmax_off_by_one, SerialExecutor()).output)
    ASSERT_LT(std::abs(value), 1e-20);
}

TEST_P(Engine, GivesTheSameBitsForAnyNumberAndOrderOfWorkers) {
  Call call;
  call.shape.batch = 1;
  call.query.resize(call.query.size() / 2);
  call.key.resize(call.key.size() / 2);
  call.value.resize(call.value.size() / 2);
  call.gradient.resize(call.gradient.size() / 2);
  const Result serial = run(call, GetParam()->softmax_off_by_one, SerialExecutor());
  for (int workers : {2, 3, 64}) {
    const Result other = run(call, GetParam()->softmax_off_by_one, ReversedExecutor(workers));
    EXPECT_EQ(serial.output, other.output);
    EXPECT_EQ(serial.query, other.query);
    EXPECT_EQ(serial.key, other.key);
    EXPECT_EQ(serial.value, other.value);
    EXPECT_EQ(serial.theta, other.theta);
  }
}

// Over several blocks of keys, whose maxima rise, and with keys that no query of a group sees.
TEST_P(Engine, GivesForTheIdentityWhatItGivesForItsNumbers) {
  for (const bool windowed : {false, true}) {
    Call call;
    call.shape.keys = 700;
    call.shape.value_dim = 700;
    call.visibility = {.keys = 690, .causal = true, .diagonal = 630, .window = 600};
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    call.key.resize(static_cast<std::size_t>(call.shape.batch * call.shape.value_heads * 700 * call.shape.head_dim));
    call.gradient.resize(
        static_cast<std::size_t>(call.shape.batch * call.shape.query_heads * call.shape.queries * 700));
    for (double& each : call.key) each = normal(random);
    for (double& each : call.gradient) each = normal(random);
    if (windowed)
      call.centers.resize(static_cast<std::size_t>(call.shape.batch * call.shape.query_heads * call.shape.queries),
                          400);
    Call named = call;
    named.value.clear(), named.identity_values = true;
    call.value.assign(static_cast<std::size_t>(call.shape.batch * call.shape.value_heads * 700 * 700), 0);
    for (std::size_t i = 0; i < call.value.size(); ++i) call.value[i] = i / 700 % 700 == i % 700 ? 1 : 0;
    for (const PairwiseKernel<double>& kernel : {GetParam()->softmax_off_by_one, GetParam()->sigmoid}) {
      const Result read = run(call, kernel, SerialExecutor()), given = run(named, kernel, ReversedExecutor(3));
      EXPECT_EQ(read.output, given.output);
      EXPECT_EQ(read.query, given.query);
      EXPECT_EQ(read.key, given.key);
      EXPECT_EQ(read.theta, given.theta);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Engine, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
