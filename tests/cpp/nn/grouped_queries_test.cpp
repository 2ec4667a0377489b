// Layers whose queries share keys and values, with and without rotary positions, against the same layers with every key
// and value written out once per query head.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "hooked.h"

namespace cogwheel::nn::grouped_queries_test {
namespace {

constexpr std::int64_t width = 64, heads = 8, head_dim = width / heads, tokens = 6;

std::shared_ptr<const Rotary> make_rotary(bool wanted) {
  return wanted ? std::make_shared<Rotary>(RotaryOptions{head_dim, tokens}) : nullptr;
}

AttentionLayer make_layer(const std::string& mechanism, std::int64_t key_value_heads, bool rotary) {
  AttentionLayer layer(AttentionLayerOptions{.width = width,
                                             .heads = heads,
                                             .key_value_heads = key_value_heads,
                                             .mechanism = mechanism,
                                             .layer = 1,
                                             .projection_bias = true,
                                             .output_bias = true},
                       make_rotary(rotary));
  layer->initialize(WeightInitializer(7), "attention", 0.3, 0.3);
  layer->to(at::kDouble);
  return layer;
}

at::Tensor input() {
  return torch::randn({2, tokens, width}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
}

// Rows of a projection to `shared` heads, repeated for the `heads` that read them: blocks of `unit` heads at a time.
at::Tensor repeated(const at::Tensor& rows, std::int64_t shared, std::int64_t unit) {
  const at::Tensor blocks = rows.unflatten(0, {shared / unit, unit * head_dim});
  return blocks.repeat_interleave(heads / shared, 0).flatten(0, 1);
}

TEST(GroupedQueries, ReadTheHeadsThatTheyShare) {
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog", "consmax", "norm", "centered", "differential"})
    for (const bool rotary : {false, true})
      for (const std::int64_t shared : {2, 4}) {
        AttentionLayer grouped = make_layer(mechanism, shared, rotary), whole = make_layer(mechanism, 0, rotary);
        const torch::NoGradGuard no_grad;
        const auto from = grouped->named_parameters(), to = whole->named_parameters();
        // The sub-heads of a differential head stay together, as does its value, which is as wide as two of them.
        const std::int64_t unit = mechanism == "differential" ? 2 : 1;
        for (const auto& parameter : from) {
          at::Tensor target = to[parameter.key()];
          if (parameter.key().starts_with("query_key_value.")) {
            const auto parts = parameter.value().split_with_sizes({width, shared * head_dim, shared * head_dim}, 0);
            target.copy_(at::cat({parts[0], repeated(parts[1], shared, unit), repeated(parts[2], shared, unit)}));
          } else {
            target.copy_(parameter.value());
          }
        }
        EXPECT_TRUE(at::allclose(grouped(x), whole(x), 1e-10, 1e-12)) << mechanism << " " << shared << " " << rotary;
        EXPECT_TRUE(at::allclose(weights_of(grouped, x), weights_of(whole, x), 1e-10, 1e-12)) << mechanism;
      }
}

// A query reads the sub-head of its own number, whichever of its places is seen.
TEST(GroupedQueries, ShowTheMapsOfADifference) {
  const at::Tensor x = input();
  for (const bool rotary : {false, true}) {
    AttentionLayer layer = make_layer("differential", 4, rotary);
    const at::Tensor members = hooked(HookPlace::pattern_members, layer, x).at(0);
    const at::Tensor query = hooked(rotary ? HookPlace::rotated_query : HookPlace::query, layer, x).at(0),
                     key = hooked(rotary ? HookPlace::rotated_key : HookPlace::key, layer, x).at(0);
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t group = head / 2 / 2, of_group = 2 * group + head % 2;  // four sub-heads to two keys
      const at::Tensor scores = query.select(2, head).matmul(key.select(2, of_group).transpose(1, 2)) /
                                std::sqrt(static_cast<double>(head_dim));
      const at::Tensor hidden = at::ones({tokens, tokens}, at::kBool).triu(1);
      EXPECT_TRUE(
          at::allclose(members.select(1, head), scores.masked_fill(hidden, -INFINITY).softmax(-1), 1e-10, 1e-12))
          << head << " " << rotary;
    }
  }
}

TEST(GroupedQueries, OneSharedHeadServesAll) {
  AttentionLayer layer = make_layer("cog", 1, true);
  EXPECT_EQ(layer->named_parameters()["query_key_value.weight"].size(0), width + 2 * head_dim);
  EXPECT_EQ(layer(input()).sizes(), at::IntArrayRef({2, tokens, width}));
}

TEST(GroupedQueries, EveryParameterLearns) {
  for (const std::string mechanism : {"softmax", "cog", "differential"}) {
    AttentionLayer layer = make_layer(mechanism, 2, true);
    layer(input()).square().sum().backward();
    for (const auto& parameter : layer->named_parameters())
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0) << mechanism << " " << parameter.key();
  }
}

TEST(RotaryAttention, TurnsTiedKeysWithTheirQueries) {
  AttentionLayer layer = make_layer("symmetric", 0, true);
  const at::Tensor x = input();
  const auto parameters = layer->named_parameters();
  const at::Tensor projected = x.matmul(parameters["query_value.weight"].t()) + parameters["query_value.bias"];
  const at::Tensor query =
      (*make_rotary(true))(projected.slice(-1, 0, width).unflatten(-1, {heads, head_dim})).transpose(1, 2);
  const at::Tensor scores = query.matmul(query.transpose(-1, -2)) / std::sqrt(static_cast<double>(head_dim));
  const at::Tensor hidden = at::ones({tokens, tokens}, at::kBool).triu(1);
  EXPECT_TRUE(at::allclose(weights_of(layer, x), scores.masked_fill(hidden, -INFINITY).softmax(-1), 1e-10, 1e-12));
}

// Without positions, the last token sees the others as a set.
TEST(RotaryAttention, TellsOrdersApart) {
  for (const bool rotary : {false, true}) {
    AttentionLayer layer = make_layer("cog", 0, rotary);
    const at::Tensor x = input();
    const at::Tensor swapped = at::cat({x.slice(1, 1, 2), x.slice(1, 0, 1), x.slice(1, 2)}, 1);
    EXPECT_EQ(at::allclose(layer(x).select(1, -1), layer(swapped).select(1, -1), 1e-9, 1e-9), !rotary);
  }
}

TEST(GroupedQueries, RefuseWhatCannotBe) {
  const auto refuse = [](const std::string& mechanism, std::int64_t shared, const std::string& message) {
    try {
      check(AttentionLayerOptions{.width = width, .heads = heads, .key_value_heads = shared, .mechanism = mechanism});
      ADD_FAILURE() << "accepted; expected " << message;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), "key_value_heads: expected " + message);
    }
  };
  refuse("softmax", 3, "a divisor of the heads (8), got 3");
  refuse("softmax", 16, "a divisor of the heads (8), got 16");
  refuse("softmax", -1, "a divisor of the heads (8), got -1");
  refuse("differential", 1, "an even number for differential, got 1");
  refuse("symmetric", 4, "8, as heads: the keys of symmetric are its queries, got 4");
}

}  // namespace
}  // namespace cogwheel::nn::grouped_queries_test
