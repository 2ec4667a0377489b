// The models in which every token sees every other, against formulas over their weights, and what holds for any
// mechanism: sequences do not know of their padding, and without positions the order of tokens means nothing.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/patches.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/tasks/encoders/encoder.h"
#include "cogwheel/tasks/images/u_vit.h"
#include "cogwheel/tasks/images/vision_transformer.h"
#include "nn/block_formula.h"
#include "support/error_of.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::encoders::encoder_models_test {
namespace {

at::Tensor normal(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// In float64, with every weight large enough to matter.
template <class Model, class Options>
Model make(const Options& options) {
  Model model(options);
  model->initialize(5);
  model->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  std::uint64_t seed = 100;
  for (auto& parameter : model->named_parameters())
    if (!parameter.key().ends_with("lambda_query1"))
      parameter.value().add_(normal(parameter.value().sizes(), ++seed), 0.1);
  return model;
}

EncoderOptions small_encoder(const std::string& mechanism = "softmax", std::int64_t classes = 0) {
  EncoderOptions options;
  options.vocabulary = 30, options.context = 12, options.layers = 2, options.heads = 4, options.width = 32;
  options.mechanism = mechanism, options.classes = classes;
  return options;
}
images::VisionTransformerOptions small_vision_transformer(const std::string& pooling = "class") {
  images::VisionTransformerOptions options;
  options.vocabulary = 5, options.layers = 2, options.heads = 2, options.width = 16;
  options.image_size = 8, options.channels = 3, options.patch = 4, options.pooling = pooling;
  return options;
}
images::UVitOptions small_u_vit() {
  images::UVitOptions options;
  options.layers = 5, options.heads = 2, options.width = 16;
  options.image_size = 8, options.channels = 3, options.patch = 4;
  return options;
}

template <class Model, class Options>
std::int64_t parameters_of(const Options& options) {
  const nn::PlaceParameters nowhere(at::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : Model(options)->parameters()) count += parameter.numel();
  return count;
}

// Every mechanism that such a model can have.
std::vector<std::string> encoder_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : all_mechanisms())
    if (mechanism.recurrent() == nullptr) names.emplace_back(mechanism.description.name);
  return names;
}

TEST(Encoder, IsItsFormula) {
  for (const std::int64_t classes : {0, 3}) {
    Encoder model = make<Encoder>(small_encoder("softmax", classes));
    const nn::BlockFormula formula{model->named_parameters(), 4, 1e-12};
    const at::Tensor tokens = torch::randint(0, 30, {2, 7}, at::kLong),
                     segments = torch::randint(0, 2, {2, 7}, at::kLong);
    at::Tensor x = formula.weight("token_embedding").index({tokens}) +
                   formula.weight("position_embedding").slice(0, 0, 7) +
                   formula.weight("segment_embedding").index({segments});
    x = formula.norm("embedding_norm", x);
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      nn::BlockFormula block = formula;
      block.prefix = layer;
      x = block.block(x, false);
    }
    const at::Tensor states = model->states(tokens, segments);
    EXPECT_TRUE(at::allclose(states, x, 1e-9, 1e-11));
    if (classes > 0) {
      const at::Tensor expected = formula.linear("classifier", formula.linear("pooler", x.select(1, 0)).tanh());
      EXPECT_TRUE(at::allclose(model->class_logits(states.select(1, 0)), expected, 1e-9, 1e-11));
    } else {
      const at::Tensor read = formula.norm("word_norm", at::gelu(formula.linear("word_transform", x[1])));
      const at::Tensor expected = read.matmul(formula.weight("token_embedding").t()) + formula.weight("word_bias");
      EXPECT_TRUE(at::allclose(model->word_logits(states[1]), expected, 1e-9, 1e-11));
    }
  }
}

TEST(Encoder, KnowsNothingOfPaddingOrPacking) {
  const std::vector<std::int64_t> lengths{5, 9};
  const at::Tensor tokens = torch::randint(0, 30, {2, 9}, at::kLong);
  for (const std::string& mechanism : encoder_mechanisms()) {
    Encoder model = make<Encoder>(small_encoder(mechanism));
    const at::Tensor padded = model->states(tokens, {}, {.lengths = at::tensor(lengths)});
    const at::Tensor packed = model->states(at::cat({tokens[0].slice(0, 0, 5), tokens[1]}).unsqueeze(0), {},
                                            {.cu_seqlens = at::tensor(std::vector<std::int64_t>{0, 5, 14})});
    for (std::int64_t entry = 0; entry < 2; ++entry) {
      const std::int64_t length = lengths[static_cast<std::size_t>(entry)];
      const at::Tensor alone = model->states(tokens[entry].slice(0, 0, length).unsqueeze(0))[0];
      EXPECT_TRUE(at::allclose(padded[entry].slice(0, 0, length), alone, 1e-9, 1e-10)) << mechanism;
      EXPECT_TRUE(at::allclose(packed[0].slice(0, 5 * entry, 5 * entry + length), alone, 1e-9, 1e-10)) << mechanism;
    }
  }
}

TEST(Encoder, IsPermutationEquivariantWithoutPositions) {
  const at::Tensor tokens = torch::randint(0, 30, {2, 9}, at::kLong), order = at::randperm(9);
  for (const std::string& mechanism : encoder_mechanisms()) {
    EncoderOptions options = small_encoder(mechanism);
    options.position = "none";
    Encoder model = make<Encoder>(options);
    EXPECT_TRUE(at::allclose(model->states(tokens.index_select(1, order)), model->states(tokens).index_select(1, order),
                             1e-9, 1e-10))
        << mechanism;
    options.position = "learned";
    model = make<Encoder>(options);
    EXPECT_FALSE(at::allclose(model->states(tokens.index_select(1, order)),
                              model->states(tokens).index_select(1, order), 1e-3, 1e-3))
        << mechanism;
  }
}

TEST(Encoder, TrainsInBFloat16AsInFloat32) {
  Encoder model(small_encoder());
  model->initialize(3);
  const at::Tensor tokens = torch::randint(0, 30, {4, 12}, at::kLong), targets = torch::randint(0, 30, {48}, at::kLong);
  const auto gradient = [&](bool in_bfloat16) {
    const nn::BFloat16Products products(in_bfloat16);
    model->zero_grad();
    const at::Tensor states = model->states(tokens);
    EXPECT_EQ(states.scalar_type(), at::kFloat);
    at::cross_entropy_loss(model->word_logits(states.flatten(0, 1)).to(at::kFloat), targets).backward();
    return model->named_parameters()["token_embedding"].grad().clone();
  };
  const at::Tensor wide = gradient(false), narrow = gradient(true);
  EXPECT_LT((wide - narrow).norm().item<double>(), 0.02 * wide.norm().item<double>());
}

TEST(Encoder, RefusesInOneLine) {
  Encoder model = make<Encoder>(small_encoder());
  EXPECT_EQ(usage_error_of([&] {
              model->states(at::zeros({1, 13}, at::kLong));
            }),
            "encoder: tokens: expected [batch, up to 12], got [1, 13]");
  EXPECT_EQ(usage_error_of([&] {
              model->states(at::zeros({1, 26}, at::kLong), {},
                            {.cu_seqlens = at::tensor(std::vector<std::int64_t>{0, 13, 26})});
            }),
            "encoder: packed sequences: expected up to 12 tokens, got 13");
  EncoderOptions options = small_encoder("gla");
  EXPECT_EQ(usage_error_of([&] { check(options); }),
            "model.mechanism: expected one in which every token sees every other, got gla, which has a state");
}

TEST(Patches, AreThoseOfAConvolution) {
  const at::Tensor images = normal({2, 3, 8, 12}, 1), weight = normal({7, 3, 4, 4}, 2);
  const at::Tensor expected = at::conv2d(images, weight, {}, 4).flatten(2).transpose(1, 2);
  EXPECT_TRUE(at::allclose(nn::patches_of(images, 4).matmul(weight.flatten(1).t()), expected, 1e-12, 1e-12));
  EXPECT_EQ(error_of([&] { nn::patches_of(images, 5); }),
            "images: expected [batch, channels, height, width] in multiples of 5, got [2, 3, 8, 12]");
}

TEST(Patches, OfPixelsMakeTheImageAgain) {
  const at::Tensor image = normal({2, 3, 8, 12}, 1);
  std::vector<at::Tensor> patches;
  for (std::int64_t y = 0; y < 8; y += 4)
    for (std::int64_t x = 0; x < 12; x += 4)
      patches.push_back(image.slice(2, y, y + 4).slice(3, x, x + 4).permute({0, 2, 3, 1}).flatten(1));
  EXPECT_TRUE(at::equal(nn::image_of_pixels(at::stack(patches, 1), 4, 8, 12), image));
}

TEST(VisionTransformer, IsItsFormula) {
  for (const std::string pooling : {"class", "mean"}) {
    images::VisionTransformer model = make<images::VisionTransformer>(small_vision_transformer(pooling));
    const nn::BlockFormula formula{model->named_parameters(), 2, 1e-12};
    const at::Tensor images = normal({3, 3, 8, 8}, 4);
    const at::Tensor convolution = formula.weight("patch.weight").view({16, 3, 4, 4});
    at::Tensor x = at::conv2d(images, convolution, formula.weight("patch.bias"), 4).flatten(2).transpose(1, 2);
    if (pooling == "class") x = at::cat({formula.weight("class_token").expand({3, 1, 16}), x}, 1);
    x = x + formula.weight("position_embedding");
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      nn::BlockFormula block = formula;
      block.prefix = layer;
      x = block.block(x, true);
    }
    x = formula.norm("final_norm", x);
    const at::Tensor expected = formula.linear("head", pooling == "class" ? x.select(1, 0) : x.mean(1));
    EXPECT_TRUE(at::allclose(model->forward(images), expected, 1e-9, 1e-11)) << pooling;
  }
}

TEST(VisionTransformer, IgnoresTheOrderOfPatchesWithoutPositions) {
  const at::Tensor images = normal({2, 3, 8, 8}, 4), flipped = images.unflatten(3, {2, 4}).flip({3}).flatten(3);
  for (const std::string& mechanism : encoder_mechanisms()) {
    images::VisionTransformerOptions options = small_vision_transformer();
    options.position = "none", options.mechanism = mechanism;
    images::VisionTransformer model = make<images::VisionTransformer>(options);
    EXPECT_TRUE(at::allclose(model->forward(images), model->forward(flipped), 1e-9, 1e-10)) << mechanism;
  }
}

TEST(UVit, HasThePublishedNumbersOfParameters) {
  images::UVitOptions cifar10;
  cifar10.image_size = 32, cifar10.channels = 3;
  EXPECT_EQ(parameters_of<images::UVit>(cifar10), 44'255'328);  // U-ViT-S/2
  images::UVitOptions coco;
  coco.image_size = 32, coco.channels = 4, coco.condition_width = 768, coco.condition_tokens = 77;
  EXPECT_EQ(parameters_of<images::UVit>(coco), 44'692'644);  // the same for MS-COCO
}

TEST(UVit, IsItsFormula) {
  for (const std::string condition : {"none", "class", "vectors"}) {
    images::UVitOptions options = small_u_vit();
    if (condition == "class") options.vocabulary = 3;
    if (condition == "vectors") options.condition_width = 6, options.condition_tokens = 2;
    images::UVit model = make<images::UVit>(options);
    const nn::BlockFormula formula{model->named_parameters(), 2, 1e-5};
    const at::Tensor images = normal({3, 3, 8, 8}, 4), time = at::tensor({0.0, 250.5, 999.0});
    const at::Tensor classes = at::tensor(std::vector<std::int64_t>{1, 3, 0}), vectors = normal({3, 2, 6}, 5);

    std::vector<at::Tensor> rows;  // of the time
    for (const double t : {0.0, 250.5, 999.0}) {
      std::vector<double> row;
      for (int i = 0; i < 8; ++i) row.push_back(std::cos(t * std::pow(10000, -i / 8.0)));
      for (int i = 0; i < 8; ++i) row.push_back(std::sin(t * std::pow(10000, -i / 8.0)));
      rows.push_back(at::tensor(row, at::kDouble));
    }
    std::vector<at::Tensor> tokens;
    if (condition == "class") tokens.push_back(formula.weight("class_embedding").index({classes}).unsqueeze(1));
    tokens.push_back(at::stack(rows).unsqueeze(1));
    if (condition == "vectors") tokens.push_back(formula.linear("condition", vectors));
    const at::Tensor convolution = formula.weight("patch.weight").view({16, 3, 4, 4});
    tokens.push_back(at::conv2d(images, convolution, formula.weight("patch.bias"), 4).flatten(2).transpose(1, 2));
    at::Tensor x = at::cat(tokens, 1) + formula.weight("position_embedding");
    const auto block = [&](int layer) {
      nn::BlockFormula one = formula;
      one.prefix = "layers." + std::to_string(layer) + ".";
      x = one.block(x, true);
      return x;
    };
    const at::Tensor first = block(0), second = block(1);
    block(2);
    x = formula.linear("skips.0", at::cat({x, second}, -1));
    block(3);
    x = formula.linear("skips.1", at::cat({x, first}, -1));
    block(4);
    const at::Tensor patches = formula.linear("pixels", formula.norm("final_norm", x)).slice(1, x.size(1) - 4);
    at::Tensor image = at::empty({3, 3, 8, 8}, at::kDouble);
    for (std::int64_t patch = 0; patch < 4; ++patch)
      image.slice(2, 4 * (patch / 2), 4 * (patch / 2) + 4).slice(3, 4 * (patch % 2), 4 * (patch % 2) + 4) =
          patches.select(1, patch).view({3, 4, 4, 3}).permute({0, 3, 1, 2});
    const at::Tensor expected =
        at::conv2d(image, formula.weight("convolution_weight"), formula.weight("convolution_bias"), 1, 1);
    images::NoiseCondition given;
    if (condition == "class") given.classes = classes;
    if (condition == "vectors") given.vectors = vectors;
    const at::Tensor noise = model->forward(images, time, given);
    // The embedding of the time is made in float32.
    EXPECT_TRUE(at::allclose(noise, expected, 1e-4, 1e-4)) << condition << (noise - expected).abs().max();
  }
}

TEST(UVit, RefusesInOneLine) {
  images::UVitOptions options = small_u_vit();
  options.vocabulary = 3;
  images::UVit model = make<images::UVit>(options);
  EXPECT_EQ(usage_error_of([&] {
              model->forward(normal({2, 3, 8, 8}, 1), at::zeros({2}));
            }),
            "U-ViT: classes: expected [2], got none");
  EXPECT_EQ(usage_error_of([&] {
              model->forward(normal({2, 3, 8, 9}, 1), at::zeros({2}));
            }),
            "U-ViT: images: expected [2, 3, 8, 8], got [2, 3, 8, 9]");
  options.layers = 4;
  EXPECT_EQ(usage_error_of([&] { images::check(options); }),
            "model.layers: expected an odd number: as many before the middle one as after it, got 4");
  options.layers = 5, options.patch = 3;
  EXPECT_EQ(usage_error_of([&] { images::check(options); }),
            "model.patch: expected a divisor of the 8 pixels of a side, got 3");
}

}  // namespace
}  // namespace cogwheel::tasks::encoders::encoder_models_test
