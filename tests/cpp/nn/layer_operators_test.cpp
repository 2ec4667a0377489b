// The operators of layers on the meta device, and on devices without a kernel.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <optional>

#include "cogwheel/nn/blocks/feed_forward.h"
#include "cogwheel/nn/mixers/attention_layer.h"
#include "cogwheel/nn/norm.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/layers/dropout.h"
#include "cogwheel/ops/layers/matrix_product.h"
#include "cogwheel/ops/layers/norm_of_sum.h"
#include "cogwheel/ops/layers/rotary.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::nn::layer_operators_test {
namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  return torch::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble).to(type);
}

void expect_meta(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType type) {
  EXPECT_TRUE(tensor.is_meta());
  EXPECT_EQ(tensor.sizes(), sizes);
  EXPECT_EQ(tensor.scalar_type(), type);
}

// Norm, attention, norm and feed-forward, forward and backward, as in a decoder layer.
void pass_through_layers(const std::string& mechanism, NormKind kind, bool in_bfloat16) {
  constexpr std::int64_t width = 32, heads = 4;
  const auto rotary = std::make_shared<Rotary>(RotaryOptions{width / heads, 16, RotaryLayout::halves});
  // Module::to cannot move parameters to meta, so they are created there.
  std::optional<c10::impl::IncludeDispatchKeyGuard> without_memory(c10::DispatchKey::Meta);
  std::optional<c10::impl::ExcludeDispatchKeyGuard> whatever_is_asked_for(c10::DispatchKey::BackendSelect);
  AttentionLayer attention(AttentionLayerOptions{.width = width, .heads = heads, .mechanism = mechanism}, rotary);
  FeedForward feed_forward(FeedForwardOptions{.width = width, .hidden = 48, .activation = Activation::swiglu});
  Norm before(kind, width, true), between(kind, width, true);
  whatever_is_asked_for.reset();
  without_memory.reset();
  std::vector<at::Tensor> parameters;
  for (torch::nn::Module* module :
       std::initializer_list<torch::nn::Module*>{&*attention, &*feed_forward, &*before, &*between})
    for (const at::Tensor& parameter : module->parameters()) parameters.push_back(parameter);
  const at::Tensor x = torch::empty({2, 7, width}, torch::device(at::kMeta).requires_grad(true));
  at::Tensor sum;
  {
    const BFloat16Products products(in_bfloat16);
    const Dropout dropout(0.1, 5);
    const NormOfSum read = before->of_sum(x, {});
    expect_meta(read.normed, {2, 7, width}, in_bfloat16 ? at::kBFloat16 : at::kFloat);
    const NormOfSum added = between->of_sum(read.sum, dropout(attention(read.normed)));
    expect_meta(added.sum, {2, 7, width}, at::kFloat);
    sum = added.sum + feed_forward(added.normed);
  }
  expect_meta(sum, {2, 7, width}, at::kFloat);
  sum.sum().backward();
  expect_meta(x.grad(), x.sizes(), at::kFloat);
  for (const at::Tensor& parameter : parameters) expect_meta(parameter.grad(), parameter.sizes(), at::kFloat);
}

TEST(LayerOperators, PassWithoutMemory) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const bool in_bfloat16 : {false, true})
      for (const std::string mechanism : {"cog", "softmax_off_by_one", "symmetric"})
        pass_through_layers(mechanism, kind, in_bfloat16);
}

// The fallback for devices without a kernel, on CPU tensors.
template <class Signature, class... Arguments>
auto composed(const char* name, const Arguments&... arguments) {
  return ops::find_operator<Signature>(name).redispatch(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                        arguments...);
}

void expect_near(const at::Tensor& got, const at::Tensor& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  ASSERT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(got.is_contiguous());
  const double tolerance = got.scalar_type() == at::kBFloat16 ? 0x1p-8 : 3e-6;
  EXPECT_TRUE(at::allclose(got, expected, tolerance, tolerance));
}

TEST(LayerOperators, DropTheSameElementsWithoutAKernel) {
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{77}, std::int64_t{-3}, std::int64_t{0x123456789abcdef}})
    for (const std::int64_t count : {0, 1, 4, 1003}) {
      const at::Tensor x = random({count, 3}, 1).t();
      const at::Tensor got = composed<decltype(ops::dropout)>("cogwheel::dropout", x, 0.3, seed);
      EXPECT_TRUE(got.equal(ops::dropout(x, 0.3, seed))) << seed << " " << count;
      EXPECT_TRUE(got.is_contiguous());
    }
}

TEST(LayerOperators, TurnTheSameWithoutAKernel) {
  const at::Tensor positions = torch::tensor({4, 0, 1, 19, 3, 2}, at::kLong).view({2, 3});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const bool halves : {false, true})
      for (const bool back : {false, true})
        for (const ops::OptionalTensor& each :
             {ops::OptionalTensor(), ops::OptionalTensor(positions), ops::OptionalTensor(positions[0])}) {
          const at::Tensor x = random({2, 3, 4, 10}, 1, type), table = random({2, 20, 5}, 2);
          expect_near(
              composed<decltype(ops::rotary)>("cogwheel::rotary", x, table, each, std::int64_t{6}, halves, back),
              ops::rotary(x, table, each, 6, halves, back));
        }
}

// Values on a device are not read back: positions outside the table cannot be refused there.
TEST(LayerOperators, TurnUnknownPositionsToNaN) {
  const at::Tensor x = random({1, 4, 2, 6}, 1), table = random({2, 8, 3}, 2),
                   positions = torch::tensor({7, 8, -1, 0}, at::kLong);
  const at::Tensor turned = composed<decltype(ops::rotary)>(
      "cogwheel::rotary", x, table, ops::OptionalTensor(positions), std::int64_t{0}, true, false);
  EXPECT_TRUE(turned.isnan().flatten(2).all(-1)[0].equal(torch::tensor({false, true, true, false})));
  EXPECT_FALSE(turned[0][0].isnan().any().item<bool>() || turned[0][3].isnan().any().item<bool>());
}

using NormBackwardOperator = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor&, const ops::OptionalTensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool,
    double, bool);

TEST(LayerOperators, NormTheSameWithoutAKernel) {
  const at::Tensor x = random({3, 5, 40}, 1), weight = random({40}, 3), bias = random({40}, 4),
                   sum_gradient = random({3, 5, 40}, 5);
  for (const bool centered : {false, true})
    for (const bool narrow : {false, true})
      for (const bool has_delta : {false, true}) {
        const at::ScalarType type = narrow ? at::kBFloat16 : at::kFloat;
        const ops::OptionalTensor delta = has_delta ? ops::OptionalTensor(random({3, 5, 40}, 2, type)) : std::nullopt;
        const auto [normed, sum, moments] = ops::norm_of_sum(x, delta, weight, bias, centered, 1e-5, narrow);
        const auto [other_normed, other_sum, other_moments] = composed<decltype(ops::norm_of_sum)>(
            "cogwheel::norm_of_sum", x, delta, weight, ops::OptionalTensor(bias), centered, 1e-5, narrow);
        expect_near(other_normed, normed);
        expect_near(other_sum, sum);
        expect_near(other_moments, moments);
        const char* const name = "cogwheel::norm_of_sum_backward";
        const at::Tensor gradient = random({3, 5, 40}, 6, type);
        const ops::OptionalTensor to_sum = has_delta ? ops::OptionalTensor(sum_gradient) : std::nullopt;
        const auto gradients = ops::find_operator<NormBackwardOperator>(name).call(
            gradient, to_sum, delta ? sum : x, weight, moments, centered, 1e-5, has_delta && narrow);
        const auto others = composed<NormBackwardOperator>(name, gradient, to_sum, delta ? sum : x, weight, moments,
                                                           centered, 1e-5, has_delta && narrow);
        expect_near(std::get<0>(others), std::get<0>(gradients));
        expect_near(std::get<1>(others), std::get<1>(gradients));
        expect_near(std::get<2>(others), std::get<2>(gradients));
        expect_near(std::get<3>(others), std::get<3>(gradients));
      }
}

TEST(LayerOperators, MultiplyTheSameWithoutAKernel) {
  const at::Tensor x = random({3, 5, 16}, 1), weight = random({7, 16}, 2);
  for (const ops::OptionalTensor& bias : {ops::OptionalTensor(), ops::OptionalTensor(random({7}, 3))})
    expect_near(composed<decltype(ops::matrix_product)>("cogwheel::matrix_product", x, weight, bias),
                ops::matrix_product(x, weight, bias));
}

// Memory in training: tensors that the backward pass does not read are freed early.
TEST(LayerOperators, KeepNothingThatBackwardDoesNotRead) {
  const at::Tensor x = random({2, 3, 2, 8}, 1).requires_grad_() * 1,
                   delta = random({2, 3, 2, 8}, 2).requires_grad_() * 1, weight = random({8}, 3).requires_grad_() * 1;
  const auto users = [](const at::Tensor& tensor) { return tensor.use_count() + tensor.storage().use_count(); };
  const auto before = users(x), delta_before = users(delta), weight_before = users(weight);
  const at::Tensor kept = ops::dropout(x, 0.1, 3);
  const at::Tensor turned = ops::rotary(x, random({2, 3, 4}, 2), {}, 0, true, false);
  const auto [normed, sum, moments] = ops::norm_of_sum(x, delta, weight, {}, true, 1e-5, false);
  EXPECT_TRUE(kept.requires_grad() && turned.requires_grad() && normed.requires_grad() && sum.requires_grad());
  EXPECT_FALSE(moments.requires_grad());
  EXPECT_EQ(users(x), before);
  EXPECT_EQ(users(delta), delta_before);
  EXPECT_GT(users(weight), weight_before);
}

// A kernel would treat one device's memory as the other's.
TEST(LayerOperators, RefuseTensorsOfTwoDevices) {
  const at::Tensor x = random({2, 3, 2, 8}, 1), table = random({2, 3, 4}, 2), weight = random({8}, 3),
                   matrix = random({8, 8}, 4);
  const auto refusal = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { ops::norm_of_sum(x, {}, weight.to(at::kMeta), {}, true, 1e-5, false); }),
            "norm_of_sum: weight device: expected cpu (as x), got meta");
  EXPECT_EQ(refusal([&] { ops::rotary(x.to(at::kMeta), table, {}, 0, true, false); }),
            "rotary: table device: expected meta (as x), got cpu");
  EXPECT_EQ(refusal([&] { ops::rotary(x, table, at::arange(3).to(at::kMeta), 0, true, false); }),
            "rotary: positions device: expected cpu (as x), got meta");
  EXPECT_EQ(refusal([&] { ops::matrix_product(x.to(at::kMeta), matrix, {}); }),
            "matrix_product: weight device: expected meta (as x), got cpu");
}

}  // namespace
}  // namespace cogwheel::nn::layer_operators_test
