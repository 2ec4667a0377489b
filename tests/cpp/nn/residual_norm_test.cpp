#include "cogwheel/nn/residual_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

namespace cogwheel::nn {
namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// The formulas in plain operations: Ba et al. (2016), eq. 4, and Zhang and Sennrich (2019), eq. 4.
at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, NormKind kind,
                   double epsilon) {
  const at::Tensor moved = kind == NormKind::layer ? x - x.mean(-1, true) : x;
  const at::Tensor normed = moved / (moved.square().mean(-1, true) + epsilon).sqrt() * weight;
  return bias.defined() ? normed + bias : normed;
}

class NormOfSumTest : public testing::TestWithParam<NormKind> {
 protected:
  static NormOfSum fused(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight,
                         const at::Tensor& bias = {}, bool in_bfloat16 = false) {
    return norm_of_sum(x, delta, weight, bias, GetParam(), default_epsilon(GetParam()), in_bfloat16);
  }
  static at::Tensor plain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
    return formula(x, weight, bias, GetParam(), default_epsilon(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, NormOfSumTest, testing::Values(NormKind::layer, NormKind::rms),
                         [](const auto& tested) { return tested.param == NormKind::layer ? "layer" : "rms"; });

std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& values, at::ScalarType type) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& value : values) leaves.push_back(value.to(type).clone().requires_grad_());
  return leaves;
}

// Both outputs are used: the sum continues as the stream, and the norm is read.
TEST_P(NormOfSumTest, IsItsFormulaWithItsGradients) {
  for (const std::int64_t rows : {1, 7, 64, 200})
    for (const std::int64_t width : {2, 15, 32, 40, 130}) {
      const std::vector<at::Tensor> values{random({2, rows, width}, 1), random({2, rows, width}, 2), random({width}, 3),
                                           random({width}, 4)};
      const at::Tensor to_normed = random({2, rows, width}, 5), to_sum = random({2, rows, width}, 6);
      const auto expected = leaves_of(values, at::kDouble);
      const at::Tensor sum = expected[0] + expected[1], normed = plain(sum, expected[2], expected[3]);
      torch::autograd::backward({normed, sum}, {to_normed, to_sum});
      for (const auto type : {at::kDouble, at::kFloat}) {
        const double tolerance = type == at::kDouble ? 1e-10 : 2e-4;
        const auto actual = leaves_of(values, type);
        const auto [fused_sum, fused_normed] = fused(actual[0], actual[1], actual[2], actual[3]);
        torch::autograd::backward({fused_normed, fused_sum}, {to_normed.to(type), to_sum.to(type)});
        EXPECT_TRUE(at::allclose(fused_sum.to(at::kDouble), sum, tolerance, tolerance));
        // With two columns, subtracting the mean of nearly equal values leaves only rounding.
        if (type == at::kFloat && width == 2) continue;
        EXPECT_TRUE(at::allclose(fused_normed.to(at::kDouble), normed, tolerance, tolerance)) << rows << " " << width;
        for (std::size_t i = 0; i < actual.size(); ++i)
          EXPECT_TRUE(at::allclose(actual[i].grad().to(at::kDouble), expected[i].grad(), tolerance, tolerance))
              << i << ": " << rows << " " << width;
      }
    }
}

TEST_P(NormOfSumTest, WithoutDeltaTheSumIsWhatWasGiven) {
  const at::Tensor x = random({3, 4, 16}, 1).requires_grad_(), weight = random({16}, 2);
  const at::Tensor y = x.detach().clone().requires_grad_();
  const auto [sum, normed] = fused(x, {}, weight);
  EXPECT_TRUE(sum.is_same(x));
  const at::Tensor upstream = random({3, 4, 16}, 3);
  normed.backward(upstream);
  plain(y, weight).backward(upstream);
  EXPECT_TRUE(at::allclose(x.grad(), y.grad(), 1e-10, 1e-11));
}

TEST_P(NormOfSumTest, OneOutputAloneHasItsGradients) {
  const at::Tensor weight = random({16}, 2), upstream = random({4, 16}, 3);
  for (const bool of_sum : {true, false}) {
    const auto leaves = leaves_of({random({4, 16}, 4), random({4, 16}, 5)}, at::kDouble);
    const auto expected = leaves_of({random({4, 16}, 4), random({4, 16}, 5)}, at::kDouble);
    const auto [sum, normed] = fused(leaves[0], leaves[1], weight);
    (of_sum ? sum : normed).backward(upstream);
    const at::Tensor plain_sum = expected[0] + expected[1];
    (of_sum ? plain_sum : plain(plain_sum, weight)).backward(upstream);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::allclose(leaves[i].grad(), expected[i].grad(), 1e-10, 1e-11)) << of_sum << i;
  }
}

TEST_P(NormOfSumTest, ReadsAnyStrides) {
  const at::Tensor x = random({4, 6, 32}, 5).transpose(0, 1), delta = random({32, 6, 4}, 6).permute({1, 2, 0}),
                   weight = random({32}, 7);
  const auto [sum, normed] = fused(x, delta, weight);
  EXPECT_TRUE(at::equal(sum, x + delta));
  EXPECT_TRUE(at::allclose(normed, plain(x + delta, weight), 1e-12, 1e-13));
}

TEST_P(NormOfSumTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    const auto leaves = leaves_of({random({1000, 96}, 7), random({1000, 96}, 8), random({96}, 9)}, at::kFloat);
    const auto [sum, normed] = fused(leaves[0], leaves[1], leaves[2]);
    torch::autograd::backward({normed, sum}, {normed.detach().cos(), sum.detach().sin()});
    results.push_back({sum.detach(), normed.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()});
  }
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < results[0].size(); ++i)
    for (const auto& result : results) EXPECT_TRUE(at::equal(result[i], results[0][i])) << i;
}

// The stream stays float32; its norm and the addend are bfloat16.
TEST_P(NormOfSumTest, RoundsOnceToBfloat16AndWidensFromIt) {
  const at::Tensor x = random({70, 48}, 1).to(at::kFloat), delta = random({70, 48}, 2).to(at::kBFloat16),
                   weight = random({48}, 3).to(at::kFloat), upstream = random({70, 48}, 4).to(at::kBFloat16);
  const auto narrow = std::vector{x.clone().requires_grad_(), delta.clone().requires_grad_()};
  const auto wide = std::vector{x.clone().requires_grad_(), delta.to(at::kFloat).requires_grad_()};
  const auto [sum, normed] = fused(narrow[0], narrow[1], weight, {}, true);
  const auto [wide_sum, wide_normed] = fused(wide[0], wide[1], weight);
  EXPECT_EQ(normed.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(sum, wide_sum));
  EXPECT_TRUE(at::equal(normed, wide_normed.to(at::kBFloat16)));
  torch::autograd::backward({normed}, {upstream});
  torch::autograd::backward({wide_normed}, {upstream.to(at::kFloat)});
  EXPECT_TRUE(at::equal(narrow[0].grad(), wide[0].grad()));
  EXPECT_TRUE(at::equal(narrow[1].grad(), wide[1].grad().to(at::kBFloat16)));
}

// Gradients with respect to all inputs of the first gradients, upstream gradients included.
std::vector<at::Tensor> second_derivatives(const NormOfSum& outputs, const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> upstream{random({3, 4, 9}, 15).requires_grad_(), random({3, 4, 9}, 16).requires_grad_()};
  const auto first = torch::autograd::grad({outputs.normed, outputs.sum}, leaves, upstream, /*retain_graph=*/true,
                                           /*create_graph=*/true);
  at::Tensor all = at::zeros({}, at::kDouble);
  for (const at::Tensor& gradient : first) all = all + gradient.pow(3).sum();
  auto inputs = leaves;
  inputs.insert(inputs.end(), upstream.begin(), upstream.end());
  return torch::autograd::grad({all}, inputs, {}, true, false, /*allow_unused=*/true);
}

TEST_P(NormOfSumTest, HasTheSecondDerivativesOfItsFormula) {
  for (const bool has_delta : {true, false}) {
    const std::vector<at::Tensor> values{random({3, 4, 9}, 11), random({9}, 12), random({9}, 13),
                                         random({3, 4, 9}, 14)};
    const auto make = [&] {
      auto leaves = leaves_of(values, at::kDouble);
      if (!has_delta) leaves.pop_back();
      return leaves;
    };
    const auto got = make(), expected = make();
    const auto delta = [&](const std::vector<at::Tensor>& leaves) { return has_delta ? leaves[3] : at::Tensor(); };
    const at::Tensor sum = has_delta ? expected[0] + expected[3] : expected[0].clone();
    const auto seconds = second_derivatives(fused(got[0], delta(got), got[1], got[2]), got);
    const auto formulas = second_derivatives({sum, plain(sum, expected[1], expected[2])}, expected);
    ASSERT_EQ(seconds.size(), formulas.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      ASSERT_EQ(seconds[i].defined(), formulas[i].defined()) << i;
      EXPECT_TRUE(!seconds[i].defined() || at::allclose(seconds[i], formulas[i], 1e-9, 1e-9)) << has_delta << i;
    }
  }
}

TEST_P(NormOfSumTest, RefusesWeightsOfAnotherWidth) {
  // A raw loop would read past the end.
  EXPECT_THROW(fused(random({2, 8}, 1), {}, random({7}, 2)), c10::ValueError);
  EXPECT_THROW(fused(random({2, 8}, 1), {}, random({8}, 2), random({9}, 3)), c10::ValueError);
  EXPECT_THROW(fused(random({2, 8}, 1), {}, random({8}, 2).to(at::kFloat)), c10::ValueError);
}

TEST(NormOfSum, KeepsARowOfZeros) {
  const at::Tensor weight = random({32}, 6), zeros = at::zeros({3, 32}, at::kDouble).requires_grad_();
  const at::Tensor normed = norm_of_sum(zeros, {}, weight, {}, NormKind::rms, 1e-6).normed;
  normed.sum().backward();
  EXPECT_EQ(normed.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::allclose(zeros.grad(), (weight * 1e3).expand({3, 32}), 1e-9, 1e-9));
}

}  // namespace
}  // namespace cogwheel::nn
