// A model that keeps keys and values gives the logits, and the text, of one that computes all tokens again.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/models/language_model.h"
#include "cogwheel/models/sampling.h"

namespace cogwheel {
namespace {

struct Variant {
  std::string norm, position;
  std::int64_t key_value_heads;
};
const std::vector<Variant> variants = {
    {"layer", "learned", 0}, {"rms", "rotary", 0}, {"layer", "rotary_halves", 0}, {"rms", "learned", 2}};

LanguageModel make(const std::string& mechanism, const Variant& variant = variants.front()) {
  LanguageModel model(LanguageModelOptions{.vocabulary = 30,
                                           .context = 24,
                                           .layers = 2,
                                           .heads = 4,
                                           .key_value_heads = variant.key_value_heads,
                                           .width = 32,
                                           .norm = variant.norm,
                                           .position = variant.position,
                                           .mechanism = mechanism});
  model->initialize(5);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.mul_(8);  // scores and logits far from uniform
  return model;
}

at::Tensor tokens_to_decode(std::int64_t batch, std::int64_t length) {
  return torch::randint(0, 30, {batch, length}, at::make_generator<at::CPUGeneratorImpl>(9), at::kLong);
}

// With double weights: a score that rounding could move across 0, where signed maps jump, is out of reach.
TEST(Decode, GivesTheLogitsOfTheFullPass) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(2, 24);
  for (const Mechanism& mechanism : all_mechanisms()) {
    const std::string name(mechanism.description.name);
    for (const Variant& variant : variants) {
      if (variant.key_value_heads > 0 && mechanism.ties_keys) continue;
      LanguageModel model = make(name, variant);
      EXPECT_EQ(model->can_decode(), !mechanism.is_matrix()) << name;
      if (!model->can_decode()) continue;
      model->to(at::kDouble);
      const at::Tensor expected = model(tokens);
      auto caches = model->make_caches(2);
      std::vector<at::Tensor> parts;
      for (std::int64_t begin = 0; const std::int64_t end : {11, 12, 13, 15, 24}) {
        parts.push_back(model->decode(tokens.slice(1, begin, end), caches));
        begin = end;
      }
      const double error = (at::cat(parts, 1) - expected).abs().max().item<double>();
      EXPECT_LT(error, 1e-9 * expected.abs().max().item<double>()) << name << " " << variant.position;
    }
  }
}

// Temperature 0 or draws, all tokens computed again for each.
std::vector<Token> sampled_by_full_passes(LanguageModel& model, std::vector<Token> text,
                                          const SamplingOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<Token> generated;
  while (static_cast<std::int64_t>(generated.size()) < options.length) {
    const std::vector<std::int64_t> window(text.end() - std::min<std::ptrdiff_t>(std::ssize(text), 24), text.end());
    const at::Tensor logits = model(torch::tensor(window).unsqueeze(0)).select(1, -1);
    generated.push_back(static_cast<Token>(logits.argmax().item<std::int64_t>()));
    text.push_back(generated.back());
  }
  return generated;
}

TEST(Decode, SamplesTheTextOfFullPassesWithinTheContextAndBeyond) {
  for (const std::string& mechanism : std::vector<std::string>{"softmax", "cog", "differential", "symmetric",
                                                               "centered", "relu_mean", "simple_norm_by_row"})
    for (const Variant& variant : variants) {
      if (variant.key_value_heads > 0 && find_mechanism(mechanism).ties_keys) continue;
      if (variant.key_value_heads > 0 && find_mechanism(mechanism).is_matrix()) continue;
      LanguageModel model = make(mechanism, variant);
      for (const std::vector<Token>& begun : {std::vector<Token>{4, 5, 6}, std::vector<Token>(30, 7)}) {
        const SamplingOptions options{.length = 40, .temperature = 0};
        EXPECT_EQ(sample(model, begun, options), sampled_by_full_passes(model, begun, options)) << mechanism;
      }
    }
}

TEST(Decode, RefusesWhatDoesNotFit) {
  const torch::NoGradGuard no_grad;
  LanguageModel model = make("softmax");
  auto caches = model->make_caches(1);
  model->decode(tokens_to_decode(1, 20), caches);
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message([&] { model->decode(tokens_to_decode(1, 5), caches); }),
            "language model: tokens: expected [batch, up to 4], got [1, 5]");
  EXPECT_EQ(caches.front().longest(), 20);  // as it was
  caches.pop_back();
  EXPECT_EQ(message([&] { model->decode(tokens_to_decode(1, 1), caches); }),
            "language model: caches: expected 2, one for each layer, got 1");
  LanguageModel dense = make("polynomial");
  EXPECT_EQ(message([&] { dense->make_caches(1); }),
            "cache: expected a mechanism whose rows stand alone, got polynomial");
}

}  // namespace
}  // namespace cogwheel
