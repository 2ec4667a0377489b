// The weights of a model in another one, by roles.
#include "cogwheel/nn/conversion/weight_conversion.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/tasks/language/language_model.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::language::weight_conversion_test {
namespace {

using nn::convert_weights;
using nn::ConvertedPart;
using nn::Fate;
using nn::lines_of;

LanguageModelOptions small(const std::string& mechanism, std::int64_t key_value_heads = 0) {
  return {.vocabulary = 11,
          .context = 12,
          .layers = 3,
          .heads = 8,
          .key_value_heads = key_value_heads,
          .width = 64,
          .norm = "rms",
          .position = "rotary",
          .tied_head = false,
          .mechanism = mechanism};
}

LanguageModel made(const LanguageModelOptions& options, std::uint64_t seed = 5) {
  LanguageModel model(options);
  model->initialize(seed);
  return model;
}

at::Tensor tokens() { return at::randint(11, {2, 12}, at::make_generator<at::CPUGeneratorImpl>(1), at::kLong); }

std::size_t count_of_fate(const std::vector<ConvertedPart>& parts, Fate fate) {
  return static_cast<std::size_t>(
      std::count_if(parts.begin(), parts.end(), [&](const ConvertedPart& part) { return part.fate == fate; }));
}

TEST(WeightConversion, OfAModelToItselfIsACopyWhateverItsMechanism) {
  for (const Mechanism& mechanism : mechanisms()) {
    const std::string name(mechanism.description.name);
    SCOPED_TRACE(name);
    LanguageModel from = made(small(name), 1), to = made(small(name), 2);
    const auto parts = convert_weights(*from, *to);
    EXPECT_EQ(count_of_fate(parts, Fate::copied), parts.size());
    const auto weights = to->named_parameters();
    for (const auto& parameter : from->named_parameters())
      EXPECT_TRUE(parameter.value().equal(weights[parameter.key()])) << parameter.key();
  }
}

// Where each query goes on reading the same numbers, the logits stay.
TEST(WeightConversion, MoreKeyHeadsReadTheSame) {
  const torch::NoGradGuard no_grad;
  for (const std::string mechanism : {"softmax", "cog", "differential"})
    for (const std::int64_t few : {2, 4}) {
      SCOPED_TRACE(mechanism + " " + std::to_string(few));
      LanguageModel from = made(small(mechanism, few), 1), more = made(small(mechanism), 2),
                    again = made(small(mechanism, few), 3);
      const auto parts = convert_weights(*from, *more);
      EXPECT_EQ(count_of_fate(parts, Fate::changed), 6);  // keys and values of three layers
      EXPECT_TRUE(at::allclose(more->forward(tokens()), from->forward(tokens()), 0, 1e-6));
      // And back: means of equal rows.
      convert_weights(*more, *again);
      const auto weights = again->named_parameters();
      for (const auto& parameter : from->named_parameters())
        EXPECT_TRUE(parameter.value().equal(weights[parameter.key()])) << parameter.key();
    }
}

// The planes of rotary positions lie elsewhere, and turn as before.
TEST(WeightConversion, AnotherRotaryLayoutComputesTheSame) {
  const torch::NoGradGuard no_grad;
  for (const std::string mechanism : {"softmax", "cog", "differential", "symmetric"})
    for (const bool norm : {false, true})
      for (const std::string first : {"rotary", "rotary_halves"}) {
        SCOPED_TRACE(mechanism + " " + first + (norm ? " normed" : ""));
        LanguageModelOptions options = small(mechanism);
        options.bias = true;
        options.query_key_norm = norm;
        options.position = first;
        LanguageModel from = made(options, 1);
        at::manual_seed(2);
        for (const auto& parameter : from->named_parameters())  // gains and biases that are not all alike, large scores
          parameter.value().dim() == 1 ? parameter.value().uniform_(0.5, 1.5) : parameter.value().mul_(6);
        options.position = first == "rotary" ? "rotary_halves" : "rotary";
        LanguageModel to = made(options, 2), copied = made(options, 3);
        const auto parts = convert_weights(*from, *to);
        const std::size_t rows = mechanism == "symmetric" ? 1 : 2, gains = norm ? rows : 0;
        EXPECT_EQ(count_of_fate(parts, Fate::changed), 3 * (rows + gains));
        EXPECT_TRUE(at::allclose(to->forward(tokens()), from->forward(tokens()), 1e-4, 1e-4));
        auto weights = copied->named_parameters();
        for (const auto& parameter : from->named_parameters()) weights[parameter.key()].copy_(parameter.value());
        EXPECT_FALSE(at::allclose(copied->forward(tokens()), from->forward(tokens()), 1e-2, 1e-2));
        options.position = first;
        LanguageModel again = made(options, 4);
        convert_weights(*to, *again);
        const auto back = again->named_parameters();
        for (const auto& parameter : from->named_parameters())
          EXPECT_TRUE(parameter.value().equal(back[parameter.key()])) << parameter.key();
      }
}

TEST(WeightConversion, FewerKeyHeadsAreMeansOfThoseThatTheirQueriesRead) {
  const torch::NoGradGuard no_grad;
  // The sub-heads of a difference stay apart: sub-head 2g + c of the keys is the mean of those 2h + c whose h it
  // serves.
  for (const std::string mechanism : {"softmax", "differential"}) {
    LanguageModel from = made(small(mechanism), 1), to = made(small(mechanism, 2), 2);
    convert_weights(*from, *to);
    const std::string name = "layers.1.attention.query_key_value.weight";
    const at::Tensor before = from->named_parameters()[name].slice(0, 64).unflatten(0, {2, 8, 8}),
                     now = to->named_parameters()[name].slice(0, 64).unflatten(0, {2, 2, 8});
    for (std::int64_t head = 0; head < 2; ++head) {
      const at::Tensor group =
          mechanism == "softmax" ? before.slice(1, 4 * head, 4 * head + 4) : before.slice(1, head, 8, 2);
      EXPECT_TRUE(at::allclose(now.select(1, head), group.mean(1), 0, 1e-7)) << mechanism << " " << head;
    }
  }
}

// Rows of grouped heads that pairs of queries read, biases, and what has no place.
TEST(WeightConversion, SaysWhatBecameOfEachPart) {
  LanguageModelOptions biased = small("softmax");
  biased.bias = true;
  LanguageModel from = made(biased, 1), to = made(small("symmetric"), 2);
  const auto parts = convert_weights(*from, *to);
  const auto has = [&](Fate fate, const std::string& name) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const ConvertedPart& part) { return part.fate == fate && part.name == name; });
  };
  EXPECT_TRUE(has(Fate::lost, "layers.2.attention: keys"));
  EXPECT_TRUE(has(Fate::lost, "layers.2.attention: queries, bias"));
  EXPECT_TRUE(has(Fate::copied, "layers.2.attention: queries"));
  EXPECT_TRUE(has(Fate::lost, "layers.0.attention.output.bias"));
  EXPECT_TRUE(has(Fate::lost, "head.bias"));
  EXPECT_EQ(lines_of(parts, Fate::copied, 3).front(), "layers.*.attention: queries");
  LanguageModel hybrid = made(small("gla+softmax+gla"), 2);
  const auto of_hybrid = convert_weights(*made(small("softmax"), 1), *hybrid);
  const std::vector<std::string> created = lines_of(of_hybrid, Fate::created, 3);
  EXPECT_NE(std::find(created.begin(), created.end(), "layers.*.attention.output_gate.weight, layers 0, 2"),
            created.end());
  // Twice as wide values have no place for rows of half the width.
  const auto wide = convert_weights(*made(small("softmax"), 1), *made(small("mamba2"), 2));
  EXPECT_EQ(lines_of(wide, Fate::lost, 3).front(), "layers.*.attention: values");
}

TEST(WeightConversion, RefusesOtherSizesOutsideOfMixers) {
  LanguageModelOptions wide = small("softmax");
  wide.feed_forward = 100;
  LanguageModel to = made(wide);
  EXPECT_EQ(usage_error_of([&] { convert_weights(*made(small("softmax")), *to); }),
            "layers.0.feed_forward.up.weight: expected the shape that it has, [256, 64], got [100, 64]");
}

}  // namespace
}  // namespace cogwheel::tasks::language::weight_conversion_test
