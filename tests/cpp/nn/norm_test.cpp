#include "cogwheel/nn/norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/rms_norm.h"

namespace cogwheel {
namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// Zhang and Sennrich, eq. 4, of plain operations.
at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x / (x.square().mean(-1, true) + epsilon).sqrt() * weight;
}

TEST(RmsNorm, IsItsFormulaWithItsGradients) {
  for (const std::int64_t rows : {1, 7, 64, 200})
    for (const std::int64_t width : {1, 15, 16, 40, 128}) {
      const at::Tensor x = random({2, rows, width}, 1), weight = random({width}, 2),
                       upstream = random({2, rows, width}, 3);
      const at::Tensor fused_x = x.clone().requires_grad_(), fused_weight = weight.clone().requires_grad_();
      const at::Tensor plain_x = x.clone().requires_grad_(), plain_weight = weight.clone().requires_grad_();
      const at::Tensor fused = rms_norm(fused_x, fused_weight, 1e-6), plain = formula(plain_x, plain_weight, 1e-6);
      fused.backward(upstream);
      plain.backward(upstream);
      EXPECT_TRUE(at::allclose(fused, plain, 1e-12, 1e-13)) << rows << " " << width;
      EXPECT_TRUE(at::allclose(fused_x.grad(), plain_x.grad(), 1e-10, 1e-11)) << rows << " " << width;
      EXPECT_TRUE(at::allclose(fused_weight.grad(), plain_weight.grad(), 1e-10, 1e-11)) << rows << " " << width;

      const at::Tensor single_x = x.to(at::kFloat).requires_grad_(),
                       single_weight = weight.to(at::kFloat).requires_grad_();
      rms_norm(single_x, single_weight, 1e-6).backward(upstream.to(at::kFloat));
      if (width > 1) {
        EXPECT_TRUE(at::allclose(single_x.grad().to(at::kDouble), plain_x.grad(), 1e-4, 1e-5)) << rows << " " << width;
      }
      EXPECT_TRUE(at::allclose(single_weight.grad().to(at::kDouble), plain_weight.grad(), 1e-4, 1e-4))
          << rows << " " << width;
    }
}

TEST(RmsNorm, ReadsAnyStridesAndKeepsARowOfZeros) {
  const at::Tensor x = random({4, 6, 32}, 5).transpose(0, 1), weight = random({32}, 6);
  EXPECT_TRUE(at::allclose(rms_norm(x, weight, 1e-6), formula(x, weight, 1e-6), 1e-12, 1e-13));
  const at::Tensor zeros = at::zeros({3, 32}, at::kDouble).requires_grad_();
  const at::Tensor normed = rms_norm(zeros, weight, 1e-6);
  normed.sum().backward();
  EXPECT_EQ(normed.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::allclose(zeros.grad(), (weight * 1e3).expand({3, 32}), 1e-9, 1e-9));
}

TEST(RmsNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor data = random({1000, 96}, 7).to(at::kFloat);
  std::vector<at::Tensor> outputs, gradients, weight_gradients;
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    const at::Tensor x = data.clone().requires_grad_(), weight = at::ones({96}).requires_grad_();
    const at::Tensor y = rms_norm(x, weight, 1e-6);
    y.backward(y.detach().cos());
    outputs.push_back(y.detach());
    gradients.push_back(x.grad());
    weight_gradients.push_back(weight.grad());
  }
  at::set_num_threads(threads);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    EXPECT_TRUE(outputs[i].equal(outputs[0]));
    EXPECT_TRUE(gradients[i].equal(gradients[0]));
    EXPECT_TRUE(weight_gradients[i].equal(weight_gradients[0]));
  }
}

TEST(RmsNorm, RaisesForASecondDerivative) {
  const at::Tensor x = random({2, 8}, 1).requires_grad_();
  const at::Tensor y = rms_norm(x, at::ones({8}, at::kDouble), 1e-6).square().sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, true, true), c10::Error);
}

TEST(Norm, HasTheParametersThatItCounts) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const bool bias : {false, true}) {
      const Norm norm(kind, 24, bias);
      std::int64_t count = 0;
      for (const auto& parameter : norm->parameters()) count += parameter.numel();
      EXPECT_EQ(NormImpl::parameter_count(kind, 24, bias), count);
      EXPECT_EQ(count, kind == NormKind::layer && bias ? 48 : 24);
    }
}

TEST(Norm, LayerNormTakesTheMeanAwayAndRmsNormDoesNot) {
  const at::Tensor x = random({5, 24}, 1).to(at::kFloat) + 3;
  Norm layer(NormKind::layer, 24, true), rms(NormKind::rms, 24, true);
  layer->initialize();
  rms->initialize();
  EXPECT_LT(layer(x).mean(-1).abs().max().item<double>(), 1e-5);
  EXPECT_GT(rms(x).mean(-1).min().item<double>(), 0.5);
  EXPECT_TRUE(at::allclose(rms(x).square().mean(-1), at::ones({5}), 1e-4, 1e-4));
}

}  // namespace
}  // namespace cogwheel
