// An imported model computes what the foreign one computes.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "cogwheel/interchange/import_run.h"
#include "cogwheel/tasks/encoders/encoder.h"
#include "cogwheel/tasks/images/u_vit.h"
#include "cogwheel/tasks/images/vision_transformer.h"
#include "interchange/foreign_formula.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::interchange_formulas {
namespace {

template <class Model, class Options>
Model imported(const ForeignExample& example) {
  const TemporaryFolder temporary;
  example.write(temporary.path());
  const ImportedModel read = read_foreign_model(temporary.path());
  Model model(read.config.model.as<Options>());
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) parameter.value().copy_(read.weights.at(parameter.key()));
  model->to(at::kDouble);
  return model;
}

void expect_close(const at::Tensor& got, const at::Tensor& expected, double tolerance = 1e-7) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_GT(expected.std().item<double>(), 0.01);
  EXPECT_TRUE(at::allclose(got, expected, 0, tolerance)) << (got - expected).abs().max().item<double>();
}

at::Tensor random_images() { return torch::randn({2, 3, 8, 8}, at::kDouble); }

TEST(Interchange, BertComputesWhatItDid) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = torch::randint(0, 20, {2, 7}, at::kLong),
                   segments = torch::randint(0, 2, {2, 7}, at::kLong);
  for (const bool classes : {false, true}) {
    const ForeignExample example = bert_example(classes);
    auto model = imported<tasks::encoders::Encoder, tasks::encoders::EncoderOptions>(example);
    const ForeignFormula formula{example.weights};
    const at::Tensor states = model->states(tokens, segments), expected = formula.bert_states(tokens, segments);
    expect_close(states, expected);
    if (classes)
      expect_close(model->class_logits(states.select(1, 0)), formula.bert_classes(expected));
    else
      expect_close(model->word_logits(states[1]), formula.bert_words(expected)[1]);
  }
}

TEST(Interchange, ViTComputesWhatItDid) {
  const torch::NoGradGuard no_grad;
  const ForeignExample example = vit_example();
  const at::Tensor images = random_images();
  auto model = imported<tasks::images::VisionTransformer, tasks::images::VisionTransformerOptions>(example);
  expect_close(model->forward(images), ForeignFormula{example.weights}.vit(images));
}

TEST(Interchange, UViTComputesWhatItDid) {
  const torch::NoGradGuard no_grad;
  const at::Tensor images = random_images(), times = at::tensor(std::vector<double>{3.5, 900});
  for (const std::string condition : {"nothing", "classes", "vectors"}) {
    const ForeignExample example = u_vit_example(condition);
    auto model = imported<tasks::images::UVit, tasks::images::UVitOptions>(example);
    tasks::images::NoiseCondition given;
    if (condition == "classes") given.classes = at::tensor(std::vector<std::int64_t>{6, 2});
    if (condition == "vectors") given.vectors = torch::randn({2, 2, 10}, at::kDouble);
    const ForeignFormula formula{example.weights, 1e-5};
    // Angles are float32 in both: one of 900 is rounded by 3e-5.
    expect_close(model->forward(images, times, given), formula.u_vit(images, times, given.classes, given.vectors),
                 2e-5);
  }
}

}  // namespace
}  // namespace cogwheel::interchange::interchange_formulas
