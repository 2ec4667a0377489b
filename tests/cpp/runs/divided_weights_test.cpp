#include "cogwheel/runs/training/divided_weights.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>
#include <string>

#include "cogwheel/tasks/language/language_model.h"
#include "runs/tiny_run.h"

namespace cogwheel::runs {
namespace {

using tasks::language::LanguageModel;

LanguageModel model_of(const std::string& mechanism, std::int64_t vocabulary = 16) {
  torch::manual_seed(1);
  tasks::language::LanguageModelOptions options = tiny_model(mechanism);
  options.vocabulary = vocabulary;
  options.heads = 4;
  options.key_value_heads = 2;
  LanguageModel model(options);
  const torch::NoGradGuard no_gradient;
  for (at::Tensor& each : model->parameters()) each.copy_(at::randn_like(each));
  return model;
}

TEST(DividedWeights, ChangeNothingForOneRank) {
  LanguageModel model = model_of("softmax");
  const at::Tensor before = model->parameters()[2].clone();
  const DividedWeights divided(*model, 0, 1);
  EXPECT_TRUE(divided.empty());
  EXPECT_TRUE(at::equal(model->parameters()[2], before));
  EXPECT_EQ(divided.sum(3, "numbers"), 3);
}

TEST(DividedWeights, AreEachOnOneRank) {
  LanguageModel whole = model_of("cog"), first = model_of("cog"), second = model_of("cog");
  const DividedWeights of_first(*first, 0, 2), of_second(*second, 1, 2);
  std::set<std::string> divided;
  for (const auto& parameter : whole->named_parameters()) {
    const std::string& name = parameter.key();
    const at::Tensor mine = first->named_parameters()[name], other = second->named_parameters()[name];
    EXPECT_EQ(of_first.contains(name), of_second.contains(name));
    EXPECT_EQ(of_first.whole_sizes(name, mine), parameter.value().sizes().vec());
    EXPECT_TRUE(at::equal(of_first.share(name, parameter.value()), mine)) << name;
    EXPECT_TRUE(at::equal(of_second.share(name, parameter.value()), other)) << name;
    if (!of_first.contains(name)) {
      EXPECT_TRUE(at::equal(mine, parameter.value())) << name;
      continue;
    }
    divided.insert(name);
    // Every number is with one of them.
    const auto numbers = [](const at::Tensor& tensor) { return std::get<0>(tensor.flatten().sort()); };
    EXPECT_TRUE(at::equal(numbers(at::cat({mine.flatten(), other.flatten()})), numbers(parameter.value()))) << name;
  }
  // All that is read by heads and hidden units, and what they write.
  EXPECT_TRUE(divided.contains("layers.0.attention.query_key_value.weight"));
  EXPECT_TRUE(divided.contains("layers.0.attention.output.weight"));
  EXPECT_TRUE(divided.contains("layers.0.feed_forward.up.weight"));
  EXPECT_TRUE(divided.contains("layers.0.feed_forward.out.weight"));
  EXPECT_FALSE(divided.contains("layers.0.attention.output.bias"));
  EXPECT_TRUE(divided.contains("token_embedding"));
  EXPECT_FALSE(divided.contains("final_norm.weight"));
}

// What has a state, and tokens that two do not divide.
TEST(DividedWeights, LeaveWholeWhatIsNotShared) {
  LanguageModel model = model_of("gla", 17);
  const DividedWeights divided(*model, 1, 2);
  for (const auto& parameter : model->named_parameters())
    EXPECT_EQ(divided.contains(parameter.key()), parameter.key().find("feed_forward.up") != std::string::npos ||
                                                     parameter.key().ends_with("feed_forward.out.weight"))
        << parameter.key();
}

// Queries 0 to 3 at one rate, keys and values at others: half of each.
TEST(DividedWeights, KeepTheRatesOfTheirRows) {
  LanguageModel model = model_of("softmax");
  const std::string name = "layers.0.attention.query_key_value.weight";
  const at::Tensor weight = model->named_parameters()[name];
  const std::int64_t width = weight.size(1), shared = width / 2;
  const DividedWeights second(*model, 1, 2);
  const WidthScaling scaling =
      second.shares({{name, {{0, width, 1, 0.5}, {width, shared, 1, 0.25}, {width + shared, shared, 1, 1}}}});
  std::int64_t next = 0;
  for (const auto& [rows, rate] : {std::pair(width, 0.5), std::pair(shared, 0.25), std::pair(shared, 1.0)}) {
    bool found = false;
    for (const ScaledRows& each : scaling.at(name))
      found |= each.first == next && each.count == rows / 2 && each.rate == rate;
    EXPECT_TRUE(found) << next;
    next += rows / 2;
  }
  EXPECT_EQ(scaling.at(name).size(), 3U);
}

}  // namespace
}  // namespace cogwheel::runs
