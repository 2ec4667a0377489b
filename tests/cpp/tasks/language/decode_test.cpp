// A model that keeps keys and values gives the logits, and the text, of one that computes all tokens again.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/tasks/language/generator.h"
#include "cogwheel/tasks/language/language_model.h"
#include "nn/hooked.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::language {
namespace {

struct Variant {
  std::string norm, position;
  std::int64_t key_value_heads;
};
const std::vector<Variant> variants = {
    {"layer", "learned", 0}, {"rms", "rotary", 0}, {"layer", "rotary_halves", 0}, {"rms", "learned", 2}};

LanguageModel make(const std::string& mechanism, const Variant& variant = variants.front(), std::int64_t layers = 2,
                   const std::string& recurrent_layer = "paper") {
  LanguageModel model(LanguageModelOptions{.vocabulary = 30,
                                           .context = 24,
                                           .layers = layers,
                                           .heads = 4,
                                           .key_value_heads = variant.key_value_heads,
                                           .width = 32,
                                           .norm = variant.norm,
                                           .position = variant.position,
                                           .mechanism = mechanism,
                                           .recurrent_layer = recurrent_layer});
  model->initialize(5);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.mul_(8);  // scores and logits far from uniform
  return model;
}

at::Tensor tokens_to_decode(std::int64_t batch, std::int64_t length) {
  return torch::randint(0, 30, {batch, length}, at::make_generator<at::CPUGeneratorImpl>(9), at::kLong);
}

// Double weights: with them rounding moves no score across 0, where signed maps jump.
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
      nn::ModelState state = model->make_state(2);
      std::vector<at::Tensor> parts;
      for (std::int64_t begin = 0; const std::int64_t end : {11, 12, 13, 15, 24}) {
        parts.push_back(model->forward(tokens.slice(1, begin, end), {.state = &state}));
        begin = end;
      }
      const double error = (at::cat(parts, 1) - expected).abs().max().item<double>();
      EXPECT_LT(error, 1e-9 * expected.abs().max().item<double>()) << name << " " << variant.position;
    }
  }
}

// Each mechanism with a state beside attention, as a plain layer and as its paper has it.
TEST(Decode, OfHybridsGivesTheLogitsOfTheFullPass) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(2, 24);
  for (const Mechanism& mechanism : mechanisms())
    for (const std::string layer : {"plain", "paper"}) {
      if (mechanism.recurrent() == nullptr) continue;
      LanguageModel model = make(std::string(mechanism.description.name) + "+softmax", {"rms", "none", 0}, 2, layer);
      model->to(at::kDouble);
      const at::Tensor expected = model(tokens);
      nn::ModelState state = model->make_state(2);
      std::vector<at::Tensor> parts;
      for (std::int64_t begin = 0; const std::int64_t end : {11, 12, 14, 24}) {
        parts.push_back(model->forward(tokens.slice(1, begin, end), {.state = &state}));
        begin = end;
      }
      const double error = (at::cat(parts, 1) - expected).abs().max().item<double>();
      EXPECT_LT(error, 1e-9 * expected.abs().max().item<double>()) << mechanism.description.name << " " << layer;
    }
}

// At temperature 0 and with random draws, against computing all tokens again for each.
std::vector<Token> sampled_by_full_passes(LanguageModel& model, std::vector<Token> text,
                                          const runs::SamplingOptions& options) {
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
        const runs::SamplingOptions options{.length = 40, .temperature = 0};
        EXPECT_EQ(sample(model, begun, options), sampled_by_full_passes(model, begun, options)) << mechanism;
      }
    }
}

// Entries of different lengths continue each at its own position; so do cropped and copied ones.
TEST(Decode, ContinuesEntriesOfDifferentLengths) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(2, 24), kept = at::tensor({9, 14}, at::kLong);
  for (const Variant& variant : variants) {
    LanguageModel model = make("softmax", variant);
    model->to(at::kDouble);
    const at::Tensor expected = model(tokens);
    nn::ModelState state = model->make_state(2);
    model->forward(tokens.slice(1, 0, 16), {.state = &state});
    const std::int64_t bytes = state.bytes();
    state.crop(kept);
    EXPECT_EQ(state.bytes() * 32, bytes * 23);
    nn::ModelState swapped = state.fork(at::tensor({1, 0, 1}, at::kLong));
    const auto next = [&](std::int64_t entry) {
      const auto length = kept[entry].item<std::int64_t>();
      return std::pair{tokens[entry].slice(0, length, length + 4), expected[entry].slice(0, length, length + 4)};
    };
    const at::Tensor of_state = model->forward(at::stack({next(0).first, next(1).first}), {.state = &state});
    EXPECT_TRUE(at::allclose(of_state, at::stack({next(0).second, next(1).second}), 1e-9, 1e-11)) << variant.position;
    const at::Tensor of_fork =
        model->forward(at::stack({next(1).first, next(0).first, next(1).first}), {.state = &swapped});
    EXPECT_TRUE(at::allclose(of_fork, at::stack({next(1).second, next(0).second, next(1).second}), 1e-9, 1e-11));
    EXPECT_TRUE(state.lengths().equal(kept + 4));
  }
}

// A hook in a pass with a state sees the last rows of the pass over all tokens.
TEST(Decode, IsObservedAsTheFullPassIs) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(2, 20);
  for (const std::string mechanism : {"softmax", "cog", "differential"})
    for (const nn::HookPlace place :
         {nn::HookPlace::pattern, nn::HookPlace::row_statistics, nn::HookPlace::heads, nn::HookPlace::stream_after}) {
      LanguageModel model = make(mechanism);
      model->to(at::kDouble);
      const auto whole = nn::hooked(place, model, tokens);
      nn::ModelState state = model->make_state(2);
      model->forward(tokens.slice(1, 0, 15), {.state = &state});
      const auto last = nn::hooked(place, model, tokens.slice(1, 15), {.state = &state});
      ASSERT_EQ(last.size(), whole.size());
      const std::int64_t dimension = place == nn::HookPlace::row_statistics ? 3
                                     : place == nn::HookPlace::pattern      ? 2
                                                                            : 1;
      for (std::size_t layer = 0; layer < last.size(); ++layer)
        EXPECT_TRUE(at::allclose(last[layer], whole[layer].narrow(dimension, 15, 5), 1e-8, 1e-10))
            << mechanism << " " << nn::hook_places()[static_cast<std::size_t>(place)].name;
    }
}

// What ends a pass in the middle leaves no layer ahead of the others.
TEST(Decode, GoesOnAfterAPassThatFailed) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(1, 12);
  for (const std::string mechanism : {"softmax", "gla*2+softmax"}) {
    LanguageModel model = make(mechanism, variants.front(), 3);
    model->to(at::kDouble);
    const at::Tensor expected = model(tokens);
    nn::ModelState state = model->make_state(1);
    model->forward(tokens.slice(1, 0, 5), {.state = &state});
    nn::Hooks hooks;
    hooks.replace(nn::HookPlace::heads, [](const nn::HookPoint& site, const at::Tensor& value) {
      return site.layer == 1 ? value.narrow(1, 0, 1) : value;
    });
    EXPECT_THROW(model->forward(tokens.slice(1, 5, 9), {.state = &state, .hooks = &hooks}), UsageError);
    for (std::size_t layer = 0; layer < state.size(); ++layer) EXPECT_EQ(state[layer].longest(), 5);
    EXPECT_TRUE(at::allclose(model->forward(tokens.slice(1, 5), {.state = &state}), expected.slice(1, 5), 1e-9, 1e-11));
  }
}

LanguageModel without_positions(const std::string& mechanism) { return make(mechanism, {"rms", "none", 0}, 2); }

// Where no layer keeps keys and nothing has a table of positions, the context bounds nothing but training.
TEST(Decode, WithoutKeysAndPositionsGoesBeyondTheContextAtTheSameCost) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = tokens_to_decode(1, 60);
  LanguageModel model = without_positions("gla+mamba2");
  model->to(at::kDouble);
  const at::Tensor expected = model(tokens);
  nn::ModelState state = model->make_state(1);
  model->forward(tokens.slice(1, 0, 30), {.state = &state});
  const std::int64_t bytes = state.bytes();
  const at::Tensor last = model->forward(tokens.slice(1, 30), {.state = &state});
  EXPECT_TRUE(at::allclose(last, expected.slice(1, 30), 1e-9, 1e-11));
  EXPECT_EQ(state.bytes(), bytes);
  EXPECT_GT(make("gla", {"rms", "rotary", 0})->longest_text(), 24);  // a state turns no heads

  // A token of a text beyond the context is seen: cut off, it would change nothing.
  LanguageModel sampled = without_positions("retnet");
  const runs::SamplingOptions options{.length = 40, .temperature = 0};
  const std::vector<Token> begun = {4, 5, 6};
  std::vector<Token> text = begun;
  for (std::int64_t i = 0; i < options.length; ++i) {
    const std::vector<std::int64_t> all(text.begin(), text.end());
    text.push_back(
        static_cast<Token>(sampled(torch::tensor(all).unsqueeze(0)).select(1, -1).argmax().item<std::int64_t>()));
  }
  EXPECT_EQ(sample(sampled, begun, options), std::vector<Token>(text.begin() + 3, text.end()));

  for (const std::string mechanism : {"gla+softmax", "softmax"})
    EXPECT_EQ(without_positions(mechanism)->longest_text(), 24) << mechanism;
  EXPECT_EQ(make("gla")->longest_text(), 24);  // learned positions
}

TEST(Decode, RefusesWhatDoesNotFit) {
  const torch::NoGradGuard no_grad;
  LanguageModel model = make("softmax");
  nn::ModelState state = model->make_state(1);
  model->forward(tokens_to_decode(1, 20), {.state = &state});
  EXPECT_EQ(usage_error_of([&] { model->forward(tokens_to_decode(1, 5), {.state = &state}); }),
            "language model: tokens: expected [batch, up to 4], got [1, 5]");
  EXPECT_EQ(state.longest(), 20);  // unchanged
  nn::ModelState other = make("softmax", variants.front(), 3)->make_state(1);
  EXPECT_EQ(usage_error_of([&] { model->forward(tokens_to_decode(1, 1), {.state = &other}); }),
            "language model: state: expected 2 layers, got 3");
  EXPECT_EQ(usage_error_of([&] {
              model->forward(tokens_to_decode(1, 3), {.positions = at::tensor({0, 1, 24}, at::kLong).unsqueeze(0)});
            }),
            "language model: positions: expected 0 to 23, got 24");
  LanguageModel dense = make("polynomial");
  EXPECT_EQ(usage_error_of([&] { dense->make_state(1); }),
            "cache: expected a mechanism whose rows stand alone, got polynomial");
}

}  // namespace
}  // namespace cogwheel::tasks::language
