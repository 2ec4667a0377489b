// Weights, keys and values in bfloat16 and int8, against float64 formulas of their own.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/states/key_value_state.h"
#include "cogwheel/nn/weights/joined_products.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "support/usage_error_of.h"

namespace cogwheel::nn {
namespace {

constexpr NumberType narrow_types[] = {NumberType::bfloat16, NumberType::int8};

// What rows of float32 stand for once they are kept, in float64.
at::Tensor kept_as(const at::Tensor& rows, NumberType type) {
  if (type == NumberType::bfloat16) return rows.to(at::kBFloat16).to(at::kDouble);
  const at::Tensor scale = (rows.abs().amax(-1, true) / 127).to(at::kDouble);
  return at::where(scale > 0, (rows.to(at::kDouble) / scale).round() * scale, at::zeros({}, at::kDouble));
}

double error_of(const at::Tensor& got, const at::Tensor& expected) {
  return (got.to(at::kDouble) - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

TEST(NarrowWeights, MultiplyAsWhatTheyStandForWhateverTheRows) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  for (const NumberType type : narrow_types)
    for (const bool released : {false, true}) {
      Linear linear(70, 50, true);
      linear->weight().normal_();
      linear->weight()[3].zero_();
      linear->weight()[4].mul_(1e4);
      linear->bias().normal_();
      const at::Tensor stands_for = kept_as(linear->weight().clone(), type), bias = linear->bias().to(at::kDouble);
      const NarrowWeights narrow(*linear, {}, type, released);
      EXPECT_EQ(linear->weight().storage().nbytes() <= 4, released);
      EXPECT_EQ(linear->weight().sizes(), at::IntArrayRef({50, 70}));
      EXPECT_EQ(narrow.bytes(), 50 * 70 * (type == NumberType::int8 ? 1 : 2) + (type == NumberType::int8 ? 4 * 50 : 0));
      const NarrowProducts in_force(&narrow);
      for (const std::int64_t rows : {1, 2, 7, 16, 17, 40}) {
        const at::Tensor x = torch::randn({1, rows, 70});
        const at::Tensor expected = at::linear(x.to(at::kDouble), stands_for, bias);
        const double bound = rows > 16 ? 0x1p-8 : 1e-6;  // inputs and results of many rows are rounded to bfloat16
        EXPECT_LT(error_of(linear(x), expected), bound) << name_of(type) << " " << rows;
        if (rows > 1) continue;
        std::vector<at::Tensor> made(2);
        const std::vector<std::function<void()>> passes = {[&] { made[0] = linear(x); },
                                                           [&] { made[1] = linear(2 * x); }};
        JoinedProducts().run(passes);
        EXPECT_LT(error_of(made[0], expected), 1e-6);
        EXPECT_TRUE(made[0].equal(linear(x)));
      }
    }
}

TEST(NarrowWeights, AreReadAsEmbeddings) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  for (const NumberType type : narrow_types) {
    Linear head(12, 30, false);
    head->weight().normal_();
    const NarrowWeights narrow(*head, {}, type);
    const at::Tensor tokens = torch::randint(0, 30, {2, 9});
    EXPECT_TRUE(embedded_rows(head->weight(), tokens).equal(at::embedding(head->weight(), tokens)));
    const NarrowProducts in_force(&narrow);
    EXPECT_LT(error_of(embedded_rows(head->weight(), tokens), at::embedding(kept_as(head->weight(), type), tokens)),
              1e-6);
  }
}

TEST(NarrowWeights, AreOfFloat32AloneAndNamed) {
  Linear linear(3, 4, false);
  linear->to(at::kDouble);
  EXPECT_EQ(usage_error_of([&] { NarrowWeights(*linear, {}, NumberType::int8); }),
            "weights: expected a model in float32, got Double");
  EXPECT_EQ(usage_error_of([] { narrow_type("--weights", "int4"); }), "--weights: expected bf16 or int8, got int4");
  EXPECT_EQ(narrow_type("--weights", ""), NumberType::float32);
}

// softmax(q kᵀ / √D) v, or Cog's, of the last rows of a causal pass.
at::Tensor dense(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool cog) {
  const std::int64_t queries = query.size(2), keys = key.size(2);
  const at::Tensor scores = query.matmul(key.transpose(2, 3)) / std::sqrt(double(query.size(3)));
  const at::Tensor hidden = at::ones({queries, keys}, at::kBool).triu(keys - queries + 1);
  const at::Tensor exponents = (cog ? scores.abs() : scores).masked_fill(hidden, -INFINITY).softmax(-1);
  return (cog ? exponents * scores.sign() : exponents).matmul(value);
}

TEST(NarrowCache, AttendsToTheKeysAndValuesThatItKeeps) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(6);
  constexpr std::int64_t batch = 2, heads = 3, dim = 16, capacity = 80;
  const auto drawn = [&](std::int64_t tokens) { return torch::randn({batch, heads, tokens, dim}); };
  for (const NumberType type : narrow_types)
    for (const bool cog : {false, true}) {
      const auto turned = [](const at::Tensor& keys, std::int64_t distance) {
        return keys * (1 + 0.25 * double(distance));
      };
      KeyValueState state(
          ops::KeyValueCache({.batch = batch, .key_heads = heads, .capacity = capacity, .head_dim = dim}, at::kFloat),
          turned);
      state.keep_as(type);
      at::Tensor key = at::empty({batch, heads, 0, dim}, at::kDouble), value = key;
      const auto expect_kept = [&](const char* when) {
        ASSERT_LT(error_of(state.key(), key), 1e-6) << when;
        ASSERT_LT(error_of(state.value(), value), 1e-6) << when;
      };
      const auto attend = [&](std::int64_t tokens) {
        const at::Tensor more_keys = drawn(tokens), more_values = drawn(tokens), query = drawn(tokens);
        state.append(more_keys, more_values);
        key = at::cat({key, kept_as(more_keys, type)}, 2);
        value = at::cat({value, kept_as(more_values, type)}, 2);
        expect_kept("after append");
        const at::Tensor got = state.attend(query, cog ? "cog" : "softmax", {});
        const at::Tensor expected = dense(state.read_query(query).to(at::kDouble), key, value, cog);
        // The engine rounds products of bfloat16 pairs, and what it returns.
        EXPECT_LT(error_of(got, expected), type == NumberType::int8 ? 1e-5 : 2e-2) << cog;
        EXPECT_EQ(got.scalar_type(), at::kFloat);
      };
      attend(62);
      attend(1);
      attend(7);
      EXPECT_EQ(state.bytes(), batch * 70 * heads * 2 * (type == NumberType::int8 ? dim + 4 : 2 * dim));
      const auto both = state.fork(at::tensor({1, 1}, at::kLong));
      EXPECT_TRUE(static_cast<KeyValueState&>(*both).key()[0].equal(state.key()[1]));
      EXPECT_EQ(both->bytes(), state.bytes());
      state.crop(at::tensor({68, 68}, at::kLong));
      key = key.narrow(2, 0, 68);
      value = value.narrow(2, 0, 68);
      expect_kept("after crop");
      state.forget(2, 3);  // the keys after these are turned, and rounded once more
      key = at::cat({key.narrow(2, 0, 2), kept_as((key.narrow(2, 5, 63) * 1.75).to(at::kFloat), type)}, 2);
      value = at::cat({value.narrow(2, 0, 2), value.narrow(2, 5, 63)}, 2);
      ASSERT_LT(error_of(state.value(), value), 1e-6);
      // A number half-way between two may be rounded the other way.
      ASSERT_LT(error_of(state.key(), key), type == NumberType::int8 ? 1e-2 : 8e-3);
      key = state.key().to(at::kDouble);
      attend(1);
    }
}

}  // namespace
}  // namespace cogwheel::nn
