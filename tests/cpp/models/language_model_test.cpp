#include "cogwheel/models/language_model.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"

namespace cogwheel {
namespace {

LanguageModelOptions small(const std::string& mechanism) {
  return {.vocabulary = 50, .context = 24, .layers = 3, .heads = 4, .width = 32, .mechanism = mechanism};
}

LanguageModel make(const LanguageModelOptions& options, std::uint64_t seed = 11) {
  LanguageModel model(options);
  model->initialize(seed);
  return model;
}

at::Tensor random_tokens(std::int64_t batch, std::int64_t length) {
  return torch::randint(0, 50, {batch, length}, at::make_generator<at::CPUGeneratorImpl>(9), at::kLong);
}

// The model of S4-24: characters, three layers, biases everywhere.
LanguageModelOptions three_layers(const std::string& mechanism, std::int64_t heads = 8) {
  return {.vocabulary = 65,
          .context = 300,
          .layers = 3,
          .heads = heads,
          .width = 256,
          .bias = true,
          .tied_head = false,
          .mechanism = mechanism};
}

TEST(ParameterCount, GivesThePublishedNumbers) {
  EXPECT_EQ(parameter_count(three_layers("softmax")), 2'479'937);
  EXPECT_EQ(parameter_count(three_layers("cog")), 2'479'937);
  // Eight differential heads, each with two sub-heads of 16: sixteen heads of the plain layer, halved.
  EXPECT_EQ(parameter_count(three_layers("differential", 16)), 2'480'225);
  EXPECT_EQ(parameter_count(three_layers("symmetric")), 2'282'561);
}

TEST(ParameterCount, AgreesWithTheModelThatIsBuilt) {
  for (const auto& mechanism : mechanism_names())
    for (const bool bias : {false, true})
      for (const bool tied : {false, true}) {
        LanguageModelOptions options = small(mechanism);
        options.bias = bias;
        options.tied_head = tied;
        options.feed_forward = 72;
        options.first_softmax_layers = 1;
        std::int64_t count = 0;
        for (const auto& parameter : LanguageModel(options)->parameters()) count += parameter.numel();
        EXPECT_EQ(parameter_count(options), count) << mechanism;
      }
}

TEST(LanguageModel, SeesNoFutureTokenBitForBit) {
  for (const auto& mechanism : mechanism_names()) {
    LanguageModel model = make(small(mechanism));
    const torch::NoGradGuard no_grad;
    const at::Tensor tokens = random_tokens(2, 24);
    const at::Tensor before = model(tokens);
    for (const std::int64_t changed : {1, 10, 23}) {
      at::Tensor other = tokens.clone();
      other.slice(1, changed) = (other.slice(1, changed) + 1).remainder(50);
      const at::Tensor after = model(other);
      EXPECT_TRUE(after.slice(1, 0, changed).equal(before.slice(1, 0, changed))) << mechanism;
      EXPECT_FALSE(after.slice(1, changed).equal(before.slice(1, changed))) << mechanism;
    }
  }
}

TEST(LanguageModel, StartsNearTheUniformLoss) {
  for (const auto& mechanism : mechanism_names()) {
    LanguageModel model = make(small(mechanism));
    const at::Tensor tokens = random_tokens(4, 24);
    EXPECT_NEAR(model->loss(tokens, tokens.roll(1, 1)).item<double>(), std::log(50.0), 0.1) << mechanism;
  }
}

TEST(LanguageModel, PairsItsStartBetweenMechanisms) {
  const auto softmax = make(small("softmax"))->named_parameters(), cog = make(small("cog"))->named_parameters(),
             symmetric = make(small("symmetric"))->named_parameters(),
             other_seed = make(small("softmax"), 12)->named_parameters();
  for (const auto& parameter : softmax) EXPECT_TRUE(cog[parameter.key()].equal(parameter.value())) << parameter.key();
  const std::string name = "layers.1.feed_forward.in.weight";
  EXPECT_TRUE(symmetric[name].equal(softmax[name]));
  EXPECT_FALSE(other_seed[name].equal(softmax[name]));
}

TEST(LanguageModel, ScalesWhatWritesIntoTheResidualStream) {
  LanguageModelOptions options = small("softmax");
  options.width = 128;
  const auto parameters = make(options)->named_parameters();
  EXPECT_NEAR(parameters["layers.0.feed_forward.in.weight"].std().item<double>(), 0.02, 1e-3);
  const double residual = 0.02 / std::sqrt(6.0);
  EXPECT_NEAR(parameters["layers.0.feed_forward.out.weight"].std().item<double>(), residual, 5e-4);
  EXPECT_NEAR(parameters["layers.2.attention.output.weight"].std().item<double>(), residual, 5e-4);
}

TEST(LanguageModel, KeepsTheOuterLayersSoftmax) {
  LanguageModelOptions options = small("cog");
  options.layers = 5;
  options.first_softmax_layers = 1;
  options.last_softmax_layers = 2;
  const std::vector<std::string> expected = {"softmax", "cog", "cog", "softmax", "softmax"};
  for (std::int64_t layer = 0; layer < 5; ++layer) EXPECT_EQ(layer_mechanism(options, layer), expected[layer]);

  const auto maps = make(options)->attention_maps(random_tokens(1, 24));
  for (std::int64_t layer = 0; layer < 5; ++layer)
    EXPECT_EQ(maps[layer].min().item<double>() < 0, expected[layer] == "cog") << layer;
}

TEST(LanguageModel, ShowsItsAttention) {
  const at::Tensor tokens = random_tokens(1, 10);
  for (const auto& mechanism : mechanism_names()) {
    const auto maps = make(small(mechanism))->attention_maps(tokens);
    ASSERT_EQ(maps.size(), 3u);
    const std::int64_t heads = mechanism == "differential" ? 2 : 4;
    for (const auto& map : maps) {
      EXPECT_EQ(map.sizes(), at::IntArrayRef({1, heads, 10, 10})) << mechanism;
      EXPECT_EQ(map.triu(1).abs().max().item<double>(), 0) << mechanism;
      if (mechanism != "differential") {
        EXPECT_TRUE(at::allclose(map.abs().sum(-1), at::ones({1, heads, 10}), 1e-5, 1e-6)) << mechanism;
      }
    }
  }
}

TEST(LanguageModel, RefusesTokensBeyondItsContext) {
  LanguageModel model = make(small("softmax"));
  try {
    model(random_tokens(1, 25));
    ADD_FAILURE() << "accepted 25 tokens";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "language model: tokens: expected [batch, up to 24], got [1, 25]");
  }
}

TEST(LanguageModel, RefusesImpossibleOptions) {
  LanguageModelOptions options = small("cogs");
  EXPECT_THROW(check(options), UsageError);
  options = small("cog");
  options.layers = 0;
  EXPECT_THROW(check(options), UsageError);
  options = small("cog");
  options.heads = 3;
  EXPECT_THROW(LanguageModel{options}, UsageError);
}

}  // namespace
}  // namespace cogwheel
