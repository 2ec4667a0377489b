// Models with weights, keys and values of fewer bits.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/weights/joined_products.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/language/narrowing_cost.h"
#include "support/usage_error_of.h"
#include "tasks/language/generating_model.h"

namespace cogwheel::tasks::language {
namespace {

using nn::NumberType;

LanguageModel model_to_narrow(const std::string& mechanism) {
  LanguageModelOptions options;
  options.context = 24;
  options.layers = 2;
  options.norm = "rms";
  options.activation = "swiglu";
  options.mechanism = mechanism;
  options.position = "rotary";
  return made_for_generation(options, 3);
}

at::Tensor some_tokens() {
  return torch::randint(0, 20, {1, 22}, at::make_generator<at::CPUGeneratorImpl>(9), at::kLong);
}

// Its matrices become what the narrow ones stand for, in float64.
void round_weights(LanguageModel& model, NumberType type) {
  model->to(at::kDouble);
  const auto rounded = [&](const at::Tensor& weight) {
    if (type == NumberType::bfloat16) return weight.copy_(weight.to(at::kBFloat16));
    const at::Tensor scale = (weight.abs().amax(1, true).to(at::kFloat) / 127).to(at::kDouble);
    return weight.copy_((weight / scale.clamp_min(1e-30)).round() * scale);
  };
  rounded(model->token_embedding());
  for (const auto& module : model->modules())
    if (const auto* const linear = module->as<nn::LinearImpl>()) rounded(linear->weight());
}

// Read as a prompt and token by token; every mechanism, and hybrids.
TEST(NarrowModel, IsTheModelOfTheWeightsThatItKeeps) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = some_tokens();
  std::vector<std::string> names = {"gla+cog", "rwkv6+softmax", "mamba2+differential"};
  for (const Mechanism& mechanism : all_mechanisms()) names.emplace_back(mechanism.description.name);
  for (const NumberType type : {NumberType::bfloat16, NumberType::int8})
    for (const std::string& name : names) {
      LanguageModel model = model_to_narrow(name), reference = model_to_narrow(name);
      round_weights(reference, type);
      const at::Tensor expected = reference(tokens);
      const auto narrow = narrow_weights(model, type, true);
      const nn::NarrowProducts in_force(narrow.get());
      // In float32 a score near 0 may change its sign, and a number near the middle between two how it is rounded.
      const auto expect_near = [&](const at::Tensor& got, double bound, const char* how) {
        const double error = (got - expected).abs().median().item<double>();
        EXPECT_LT(error, bound * expected.abs().max().item<double>()) << name << " " << how;
      };
      expect_near(model(tokens), 0x1p-7, "as a prompt");  // whose products are rounded to bfloat16
      if (!model->can_decode()) continue;
      nn::ModelState state = model->make_state(1);
      std::vector<at::Tensor> rows;
      const std::vector<std::function<void()>> passes = {[&] {
        for (std::int64_t token = 0; token < tokens.size(1); ++token)
          rows.push_back(model->forward(tokens.narrow(1, token, 1), {.state = &state}));
      }};
      for (const auto& thrown : nn::JoinedProducts().run(passes)) ASSERT_FALSE(thrown);
      expect_near(at::cat(rows, 1), 1e-3, "token by token");
    }
}

TEST(NarrowModel, ReadsAPromptAsTokenByTokenWithANarrowCache) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = some_tokens();
  for (const NumberType type : {NumberType::bfloat16, NumberType::int8})
    for (const char* name : {"softmax", "cog", "differential", "symmetric", "gla+sigmoid"}) {
      LanguageModel model = model_to_narrow(name);
      const at::Tensor plain = model(tokens);
      nn::ModelState whole = model->make_state(1, type), steps = model->make_state(1, type);
      const at::Tensor at_once = model->forward(tokens, {.state = &whole});
      std::vector<at::Tensor> rows;
      for (std::int64_t token = 0; token < tokens.size(1); ++token)
        rows.push_back(model->forward(tokens.narrow(1, token, 1), {.state = &steps}));
      const double size = plain.abs().max().item<double>();
      EXPECT_LT((at::cat(rows, 1) - at_once).abs().median().item<double>(), 1e-2 * size) << name;
      const double moved = (at_once - plain).abs().mean().item<double>();
      EXPECT_GT(moved, 1e-6 * size) << name;
      EXPECT_LT(moved, 0.1 * size) << name;
    }
}

TEST(NarrowModel, SaysWhatItCosts) {
  const torch::NoGradGuard no_grad;
  LanguageModel model = model_to_narrow("cog");
  const at::Tensor inputs = torch::randint(0, 20, {3, 24}), targets = torch::randint(0, 20, {3, 24});
  const auto loss_of = [&](LanguageModel& of) {
    return at::cross_entropy_loss(of(inputs).flatten(0, 1), targets.flatten()).item<double>();
  };
  LanguageModel reference = model_to_narrow("cog");
  round_weights(reference, NumberType::int8);
  const runs::NarrowingCost cost = narrowing_cost(model, {inputs, targets}, {.weights = NumberType::int8});
  EXPECT_EQ(cost.tokens, 72);
  EXPECT_NEAR(cost.loss, loss_of(model), 1e-5);
  EXPECT_NEAR(cost.kept_loss, loss_of(reference), 2e-3);
  EXPECT_NE(cost.kept_loss, cost.loss);
  const double others = (model(inputs).argmax(2) != reference(inputs).argmax(2)).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(cost.other_next, others, 1.5 / 72);
  // Of Cog the sign of a weight is that of its score.
  ASSERT_TRUE(cost.flipped_scores && cost.flipped_weights);
  EXPECT_GT(*cost.flipped_scores, 0);
  EXPECT_LT(*cost.flipped_scores, 0.2);
  EXPECT_NEAR(*cost.flipped_scores, *cost.flipped_weights, 1e-3);
  const runs::NarrowingCost of_cache = narrowing_cost(model, {inputs, targets}, {.cache = NumberType::int8});
  EXPECT_EQ(of_cache.loss, cost.loss);
  EXPECT_NE(of_cache.kept_loss, cost.loss);
  LanguageModel recurrent = model_to_narrow("gla");
  const runs::NarrowingCost of_state = narrowing_cost(recurrent, {inputs, targets}, {.weights = NumberType::bfloat16});
  EXPECT_FALSE(of_state.flipped_scores || of_state.flipped_weights);
  for (const char* name : {"gla", "matrix_exponential"}) {
    LanguageModel without = model_to_narrow(name);
    EXPECT_EQ(usage_error_of([&] {
                narrowing_cost(without, {inputs, targets}, {.cache = NumberType::int8});
              }),
              "cache: expected a model in which a layer keeps keys, got " + std::string(name));
  }
}

}  // namespace
}  // namespace cogwheel::tasks::language
