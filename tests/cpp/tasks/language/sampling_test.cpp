#include "cogwheel/tasks/language/sampling.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {
namespace {

LanguageModel model_to_sample() {
  LanguageModel model(LanguageModelOptions{.vocabulary = 20, .context = 8, .layers = 1, .heads = 2, .width = 16});
  model->initialize(3);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.mul_(20);  // far from uniform
  return model;
}

const std::vector<Token> prompt = {4, 5, 6};

TEST(Sampling, RepeatsItselfForTheSameSeed) {
  LanguageModel model = model_to_sample();
  const auto first = sample(model, prompt, {.length = 40, .seed = 1});
  EXPECT_EQ(first.size(), 40u);
  EXPECT_EQ(first, sample(model, prompt, {.length = 40, .seed = 1}));
  EXPECT_NE(first, sample(model, prompt, {.length = 40, .seed = 2}));
}

TEST(Sampling, TemperatureZeroTakesTheLikeliest) {
  LanguageModel model = model_to_sample();
  const auto greedy = sample(model, prompt, {.length = 5, .temperature = 0});
  EXPECT_EQ(greedy, sample(model, prompt, {.length = 5, .top_k = 1, .seed = 99}));
  const torch::NoGradGuard no_grad;
  const at::Tensor logits = model(torch::tensor({4, 5, 6}, at::kLong).unsqueeze(0));
  EXPECT_EQ(greedy.front(), logits.select(1, -1).argmax().item<std::int64_t>());
}

TEST(Sampling, DrawsOnlyAmongTheTopK) {
  LanguageModel model = model_to_sample();
  std::set<Token> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    drawn.insert(sample(model, prompt, {.length = 1, .temperature = 50, .top_k = 3, .seed = seed}).front());
  EXPECT_EQ(drawn.size(), 3u);
}

TEST(Sampling, StopsWhenTold) {
  LanguageModel model = model_to_sample();
  int calls = 0;
  const auto tokens = sample(model, prompt, {.length = 50}, [&](Token) { return ++calls < 7; });
  EXPECT_EQ(tokens.size(), 7u);
}

TEST(Sampling, RefusesWhatCannotBe) {
  EXPECT_THROW(runs::check(runs::SamplingOptions{.temperature = -1}), UsageError);
  EXPECT_THROW(runs::check(runs::SamplingOptions{.length = -1}), UsageError);
  EXPECT_THROW(runs::check(runs::SamplingOptions{.top_k = -1}), UsageError);
  LanguageModel model = model_to_sample();
  const torch::NoGradGuard no_grad;
  model->parameters().front().fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(sample(model, prompt, {.length = 1}), Error);
}

}  // namespace
}  // namespace cogwheel::tasks::language
