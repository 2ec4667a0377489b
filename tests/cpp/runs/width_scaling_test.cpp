// The coordinate check of Yang et al. (2022), section 8 and appendix D: with training.base_width a wider model's
// activations have the sizes of the base after some steps, and without they grow.
#include "cogwheel/runs/training/width_scaling.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/hooks/hooks.h"
#include "cogwheel/runs/training/optimizer.h"
#include "tests/cpp/runs/tiny_run.h"

namespace cogwheel::runs::width_scaling_test {
namespace {

constexpr std::int64_t base = 64;

TrainingOptions scaled_training(std::int64_t base_width, std::uint64_t seed = 1) {
  return {.steps = 10,
          .batch = 4,
          .learning_rate = 1e-3,
          .final_learning_rate = 1e-3,
          .warm_up = 0,
          .base_width = base_width,
          .seed = seed,
          .report_every = 10,
          .evaluate_every = 0};
}

tasks::language::LanguageModelOptions model_of_width(const std::string& mechanism, std::int64_t width) {
  return {.context = 32, .layers = 2, .heads = 4, .width = width, .mechanism = mechanism};
}

// The mean magnitudes of the residual stream after each block, then of the logits, on the first batch after ten steps.
std::vector<double> sizes(const std::string& mechanism, std::int64_t width, std::int64_t base_width,
                          std::uint64_t seed) {
  const TrainingOptions training = scaled_training(base_width, seed);
  TrainingRun run(model_of_width(mechanism, width), training, tiny_task());
  for (int step = 0; step < 10; ++step) run.step();
  const torch::NoGradGuard no_grad;
  std::vector<double> found;
  const auto see = [&](const at::Tensor& value) { found.push_back(value.abs().mean().item<double>()); };
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::stream_after, [&](const nn::HookPoint&, const at::Tensor& value) { see(value); });
  nn::ForwardContext context;
  context.hooks = &hooks;
  see(language_model(run)->forward(tiny_task()->batch(*run.model(), training, {}).inputs, context));
  return found;
}

// The same, means over seeds, of which one alone scatters by a tenth.
std::vector<double> mean_sizes(const std::string& mechanism, std::int64_t width, std::int64_t base_width) {
  constexpr std::uint64_t seeds = 4;
  std::vector<double> mean(3);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::vector<double> found = sizes(mechanism, width, base_width, seed);
    EXPECT_EQ(found.size(), mean.size());
    for (std::size_t index = 0; index < mean.size(); ++index) mean[index] += found[index] / static_cast<double>(seeds);
  }
  return mean;
}

class CoordinateCheck : public testing::TestWithParam<const char*> {};

TEST_P(CoordinateCheck, ActivationsAreAsLargeAtEachWidth) {
  const std::vector<double> of_base = mean_sizes(GetParam(), base, base);
  std::vector<double> least = of_base, largest = of_base;
  for (const std::int64_t width : {128, 256, 512}) {
    const std::vector<double> found = mean_sizes(GetParam(), width, base);
    for (std::size_t index = 0; index < found.size(); ++index) {
      least[index] = std::min(least[index], found[index]);
      largest[index] = std::max(largest[index], found[index]);
    }
  }
  const std::vector<double> without = sizes(GetParam(), 512, 0, 1);
  const char* const names[] = {"after the first block", "after the second block", "logits"};
  for (std::size_t index = 0; index < without.size(); ++index) {
    EXPECT_LE(largest[index], 1.15 * least[index]) << names[index];
    EXPECT_GE(without[index], (index < 2 ? 8 : 1.6) * of_base[index]) << names[index];
    RecordProperty("spread " + std::to_string(index), std::to_string(largest[index] / least[index]));
    RecordProperty("growth " + std::to_string(index), std::to_string(without[index] / of_base[index]));
  }
}

INSTANTIATE_TEST_SUITE_P(WidthScaling, CoordinateCheck, testing::Values("softmax", "cog", "differential", "linear_abs"),
                         [](const auto& mechanism) { return std::string(mechanism.param); });

// At the base's own width nothing changes, not a bit, nor where there is no base.
TEST(WidthScaling, ChangesNothingAtTheBase) {
  TrainingRun plain(model_of_width("cog", 32), scaled_training(0), tiny_task()),
      of_base(model_of_width("cog", 32), scaled_training(32), tiny_task());
  for (int step = 0; step < 3; ++step) EXPECT_EQ(plain.step(), of_base.step());
  EXPECT_TRUE(same_weights(plain, of_base));
}

RunConfig configuration(const tasks::language::LanguageModelOptions& model, std::int64_t base_width) {
  RunConfig config;
  config.model = model;
  config.training = scaled_training(base_width);
  return config;
}

// By name, "rows: initial, rate".
std::vector<ScaledRows> factors(const RunConfig& config, const std::string& name) {
  const WidthScaling scaling = width_scaling(config, *make_model(config.model));
  const auto found = scaling.find(name);
  return found == scaling.end() ? std::vector<ScaledRows>{} : found->second;
}

void expect_rows(const std::vector<ScaledRows>& got, const std::vector<ScaledRows>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t index = 0; index < got.size(); ++index) {
    EXPECT_EQ(got[index].first, expected[index].first);
    EXPECT_EQ(got[index].count, expected[index].count);
    EXPECT_NEAR(got[index].initial, expected[index].initial, 1e-12);
    EXPECT_NEAR(got[index].rate, expected[index].rate, 1e-12);
  }
}

TEST(WidthScaling, IsThatOfTheTable) {
  tasks::language::LanguageModelOptions model = model_of_width("differential", 1024);
  model.vocabulary = 10;
  const double of_scores = std::pow(16, -0.25);  // heads are 16 times as wide
  const RunConfig config = configuration(model, 64);
  const std::string layer = "layers.0.";
  expect_rows(factors(config, layer + "feed_forward.up.weight"), {{0, 4096, 1.0 / 4, 1.0 / 16}});
  expect_rows(factors(config, layer + "attention.output.weight"), {{0, 1024, 1.0 / 4, 1.0 / 16}});
  expect_rows(factors(config, layer + "attention.query_key_value.weight"),
              {{0, 2048, of_scores / 4, of_scores / 16}, {2048, 1024, 1.0 / 4, 1.0 / 16}});
  expect_rows(factors(config, layer + "attention.lambda_query1"), {{0, 256, 1.0 / 4, 1.0 / 4}});
  expect_rows(factors(config, "final_norm.weight"), {{0, 1024, 1.0 / 16, 1.0 / 16}});
  for (const char* unscaled : {"token_embedding", "position_embedding", "layers.0.attention_norm.weight"})
    expect_rows(factors(config, unscaled), {});

  model.head_dim = 64;  // more heads, not wider ones
  expect_rows(factors(configuration(model, 64), layer + "attention.query_key_value.weight"),
              {{0, 512, 1.0 / 4, 1.0 / 16}, {512, 256, 1.0 / 4, 1.0 / 16}});

  model = model_of_width("softmax", 1024);
  model.vocabulary = 10, model.query_key_norm = true, model.bias = model.projection_bias = true;
  expect_rows(factors(configuration(model, 64), layer + "attention.query_norm"), {{0, 256, of_scores, of_scores}});
  expect_rows(factors(configuration(model, 64), layer + "attention.query_key_value.weight"),
              {{0, 3072, 1.0 / 4, 1.0 / 16}});
  model.query_key_norm = false;
  expect_rows(factors(configuration(model, 64), layer + "attention.query_key_value.bias"),
              {{0, 2048, of_scores, of_scores}, {2048, 1024, 1, 1}});
  expect_rows(factors(configuration(model, 64), layer + "feed_forward.up.bias"), {});
}

// Keys that are the queries have both factors of a score.
TEST(WidthScaling, OfTiedKeysIsThatOfQueries) {
  tasks::language::LanguageModelOptions model = model_of_width("symmetric", 1024);
  model.vocabulary = 10;
  const double of_scores = std::pow(16, -0.25);
  expect_rows(factors(configuration(model, 64), "layers.0.attention.query_value.weight"),
              {{0, 1024, of_scores / 4, of_scores / 16}, {1024, 1024, 1.0 / 4, 1.0 / 16}});
}

// Rows learn at their rates, and decay by the same share.
TEST(WidthScaling, OfRowsIsAnOptimizerForEach) {
  torch::manual_seed(4);
  const at::Tensor joined = torch::randn({6, 5}).requires_grad_(), gradient = torch::randn({6, 5});
  const at::Tensor top = joined.detach().narrow(0, 0, 2).clone().requires_grad_(),
                   rest = joined.detach().narrow(0, 2, 4).clone().requires_grad_();
  TrainingOptions options, faster = options;
  faster.weight_decay = options.weight_decay / 0.5;
  Optimizer one({{"w", joined}}, options, {}, {}, {{"w", {{0, 2, 1, 0.5}, {2, 4, 1, 1}}}});
  Optimizer of_top({{"w", top}}, faster), of_rest({{"w", rest}}, options);
  for (int step = 0; step < 3; ++step) {
    joined.mutable_grad() = gradient * (step + 1);
    top.mutable_grad() = gradient.narrow(0, 0, 2) * (step + 1);
    rest.mutable_grad() = gradient.narrow(0, 2, 4) * (step + 1);
    if (step == 1)
      one.measured_step(0.1);
    else
      one.step(0.1);
    of_top.step(0.05);
    of_rest.step(0.1);
  }
  EXPECT_TRUE(joined.equal(at::cat({top, rest})));
}

TEST(WidthScaling, RefusesWhatIsNotScaledSo) {
  const auto problem = [](const RunConfig& config) -> std::string {
    try {
      expect_scalable(config);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem(configuration(model_of_width("cog", 128), 64)), "");
  EXPECT_EQ(problem(configuration(model_of_width("gla", 128), 0)), "");
  EXPECT_EQ(problem(configuration(model_of_width("softmax+gla", 128), 64)),
            "training.base_width: expected 0 with gla, a mechanism with a state, got 64");
  RunConfig translation;
  translation.task.name = "translation";
  translation.model = model_of_task("translation");
  translation.training.base_width = 64;
  EXPECT_EQ(problem(translation), "training.base_width: expected 0: the task translation has no such model, got 64");
  TrainingOptions muon = scaled_training(64);
  muon.optimizer = "muon";
  EXPECT_THROW(check(muon), UsageError);
}

}  // namespace
}  // namespace cogwheel::runs::width_scaling_test
