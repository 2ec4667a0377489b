// Norms of derivatives against finite differences, and bounds against those norms.
#include "cogwheel/interpret/over_squashing.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "interpret/small_models.h"
#include "support/usage_error_of.h"

namespace cogwheel::interpret {
namespace {

namespace over_squashing_cases {

struct ModelCase {
  std::string mechanism, norm, activation, position;
  bool bias = false;
  std::int64_t key_value_heads = 0, outer_softmax = 0;
};

const std::vector<ModelCase> cases{
    {"softmax", "layer", "gelu", "learned"},
    {"softmax", "rms", "swiglu", "rotary", false, 2},
    {"cog", "layer", "gelu", "learned", true},
    {"cog", "rms", "swiglu", "rotary", false, 0, 1},
    {"cog", "layer", "swiglu", "none", true, 1},
    {"cog", "rms", "gelu", "rotary_halves", true},
    {"differential", "layer", "swiglu", "learned", true},
    {"differential", "rms", "gelu", "rotary", false, 2},
    {"differential_cog", "rms", "swiglu", "rotary"},
    {"symmetric", "layer", "gelu", "none"},
    {"centered", "rms", "swiglu", "rotary", false, 2},
};

tasks::language::LanguageModel make_case(const ModelCase& each, std::uint64_t seed, double size) {
  tasks::language::LanguageModelOptions options;
  options.vocabulary = 23;
  options.layers = 3;
  options.heads = 4;
  options.width = 32;
  options.context = 13;
  options.mechanism = each.mechanism;
  options.norm = each.norm;
  options.activation = each.activation;
  options.position = each.position;
  options.bias = each.bias;
  options.key_value_heads = each.key_value_heads;
  options.first_softmax_layers = options.last_softmax_layers = each.outer_softmax;
  tasks::language::LanguageModel model(options);
  model->initialize(seed);
  const torch::NoGradGuard no_gradient;
  torch::manual_seed(seed);
  for (at::Tensor& parameter : model->parameters()) parameter.add_(torch::randn_like(parameter), size);
  model->to(at::kDouble);
  return model;
}

at::Tensor text_of(std::int64_t length, std::uint64_t seed) {
  torch::manual_seed(seed);
  return at::randint(23, {length}, at::kLong);
}

// By central differences, each number of the stream by itself.
at::Tensor measured_norms(tasks::language::LanguageModel& model, const at::Tensor& tokens, bool frozen) {
  const torch::NoGradGuard no_gradient;
  at::Tensor stream;
  std::map<std::int64_t, at::Tensor> patterns;
  nn::Hooks reads;
  reads.read(nn::HookPlace::full_embedding, [&](const nn::HookPoint&, const at::Tensor& value) { stream = value; });
  reads.read(nn::HookPlace::pattern,
             [&](const nn::HookPoint& at, const at::Tensor& value) { patterns[at.layer] = value; });
  model->forward(tokens.unsqueeze(0), {.hooks = &reads});
  const std::int64_t length = stream.size(1), width = stream.size(2);
  constexpr double step = 1e-5;
  const at::Tensor moves = at::eye(length * width, at::kDouble).view({-1, length, width}) * step;
  const auto output = [&](const at::Tensor& x) {
    at::Tensor last;
    nn::Hooks hooks;
    hooks.read(nn::HookPlace::final_norm, [&](const nn::HookPoint&, const at::Tensor& value) { last = value; });
    if (frozen)
      hooks.replace(nn::HookPlace::pattern, [&](const nn::HookPoint& at, const at::Tensor& value) {
        return patterns.at(at.layer).expand_as(value);
      });
    model->forward_from(0, x, {.hooks = &hooks});
    return last.select(1, length - 1) * model->final_norm()->gain();
  };
  const at::Tensor slopes = (output(stream + moves) - output(stream - moves)) / (2 * step);
  return at::linalg_matrix_norm(slopes.view({length, width, width}), 2);
}

double worst(const at::Tensor& found, const at::Tensor& truth) {
  return ((found - truth).abs().max() / truth.abs().max()).item<double>();
}

}  // namespace over_squashing_cases

using namespace over_squashing_cases;

TEST(OverSquashing, NormsAreThoseOfFiniteDifferences) {
  for (const ModelCase& each : cases) {
    SCOPED_TRACE(each.mechanism + " " + each.norm + " " + each.activation + " " + each.position);
    tasks::language::LanguageModel model = make_case(each, 4, 0.1);
    const at::Tensor tokens = text_of(7, 5);
    const OverSquashing found = over_squashing(*model, tokens);
    EXPECT_LT(worst(found.frozen, measured_norms(model, tokens, true)), 1e-6);
    EXPECT_LT(worst(found.full, measured_norms(model, tokens, false)), 1e-6);
    EXPECT_GT(worst(found.full, found.frozen), 1e-3);
  }
}

TEST(OverSquashing, BoundIsNeverBelowTheFrozenNorm) {
  for (const ModelCase& each : cases)
    for (const double size : {0.0, 0.02, 0.2, 1.0})
      for (const std::int64_t length : {1, 2, 5, 13}) {
        const auto seed = static_cast<std::uint64_t>(length) + 17;
        SCOPED_TRACE(each.mechanism + " " + each.norm + " " + each.activation + " " + std::to_string(size) + " " +
                     std::to_string(length));
        tasks::language::LanguageModel model = make_case(each, seed, size);
        const OverSquashing found = over_squashing(*model, text_of(length, seed));
        EXPECT_TRUE((found.bound >= found.frozen * (1 - 1e-12)).all().item<bool>()) << found.bound / found.frozen;
        EXPECT_TRUE((found.path_magnitude >= found.path_product.abs() * (1 - 1e-12)).all().item<bool>());
      }
}

// One that is far too large would pass the test above.
TEST(OverSquashing, BoundIsTightWhereLayersAddLittle) {
  for (const ModelCase& each : cases) {
    tasks::language::LanguageModel model = make_case(each, 3, 0.0);
    {
      const torch::NoGradGuard no_gradient;
      for (auto& parameter : model->named_parameters())
        if (parameter.key() == "token_embedding") parameter.value().mul_(5000);
    }
    const OverSquashing found = over_squashing(*model, text_of(9, 3));
    EXPECT_LT((found.bound / found.frozen)[8].item<double>(), 1.05) << each.mechanism;
    EXPECT_GE((found.bound / found.frozen).min().item<double>(), 1 - 1e-12);
  }
}

// One head that passes on 0.1 times what it reads, equally of all tokens, which differ much in size: what each adds is
// as much as the bound says, but for the directions that the two norms leave out.
TEST(OverSquashing, BoundIsTightWhereOneHeadCopies) {
  for (const std::string norm : {"layer", "rms"}) {
    tasks::language::LanguageModelOptions options;
    options.vocabulary = 9;
    options.layers = options.heads = 1;
    options.width = 64;
    options.context = 9;
    options.position = "none";
    options.norm = norm;
    tasks::language::LanguageModel model(options);
    model->initialize(1);
    {
      const torch::NoGradGuard no_gradient;
      torch::manual_seed(2);
      model->to(at::kDouble);
      for (auto& parameter : model->named_parameters()) {
        at::Tensor& value = parameter.value();
        const std::string& name = parameter.key();
        if (name == "token_embedding")
          value.copy_(torch::randn({9, 64}, at::kDouble) * at::logspace(0, 2, 9, 10., at::kDouble).unsqueeze(1));
        else if (name.ends_with("attention.query_key_value.weight"))
          value.copy_(at::cat({at::zeros({128, 64}, at::kDouble), 0.1 * at::eye(64, at::kDouble)}));
        else if (name.ends_with("attention.output.weight"))
          value.copy_(at::eye(64, at::kDouble));
        else if (name.ends_with("attention_norm.weight"))
          value.copy_(at::linspace(0.5, 3, 64, at::kDouble));
        else if (name.ends_with("feed_forward.out.weight"))
          value.zero_();
      }
    }
    const OverSquashing found = over_squashing(*model, at::arange(9, at::kLong));
    const at::Tensor ratio = (found.bound / found.frozen).slice(0, 0, 8);
    EXPECT_GE(ratio.min().item<double>(), 1 - 1e-12) << ratio;
    EXPECT_LT(ratio.max().item<double>(), 1.15) << ratio;
  }
}

TEST(OverSquashing, AFeedForwardKnowsItsDerivatives) {
  for (const nn::Activation activation : {nn::Activation::gelu, nn::Activation::swiglu}) {
    nn::FeedForward feed_forward(nn::FeedForwardOptions{.width = 6, .hidden = 10, .activation = activation});
    torch::manual_seed(1);
    {
      const torch::NoGradGuard no_gradient;
      for (at::Tensor& parameter : feed_forward->parameters()) parameter.copy_(torch::randn_like(parameter));
    }
    feed_forward->to(at::kDouble);
    const at::Tensor x = torch::randn({5, 6}, at::kDouble).requires_grad_(true);
    const at::Tensor found = feed_forward->jacobians(x.detach());
    ASSERT_EQ(found.sizes(), at::IntArrayRef({5, 6, 6}));
    const at::Tensor y = feed_forward(x);
    for (std::int64_t output = 0; output < 6; ++output) {
      const at::Tensor row = torch::autograd::grad({y.select(1, output).sum()}, {x}, {}, true).front();
      EXPECT_LT((found.select(1, output) - row).abs().max().item<double>(), 1e-12);
    }
  }
}

TEST(OverSquashing, RefusesWhatItCannotBound) {
  const ModelCase softmax = cases.front();
  tasks::language::LanguageModel model = make_case(softmax, 1, 0.1);
  EXPECT_THROW(over_squashing(*model, at::zeros({1, 5}, at::kLong)), UsageError);
  EXPECT_THROW(over_squashing(*model, at::zeros({0}, at::kLong)), UsageError);
  EXPECT_THROW(over_squashing(*model, at::zeros({14}, at::kLong)), UsageError);
  model->to(at::kFloat);
  EXPECT_EQ(usage_error_of([&] { over_squashing(*model, at::zeros({5}, at::kLong)); }),
            "over-squashing: model: expected float64, in which a bound is one, got Float");
  tasks::language::LanguageModel state = make_small({"gpt", "gla"});
  EXPECT_EQ(usage_error_of([&] { over_squashing(*state, at::zeros({5}, at::kLong)); }),
            "over-squashing: model: expected one with heads of attention in every layer, got gla");
}

}  // namespace
}  // namespace cogwheel::interpret
