#include "cogwheel/nn/norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel::nn {
namespace {

at::Tensor random_input(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

TEST(Norm, LearnsBiasesInLayerNormsAlone) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const bool bias : {false, true}) {
      const Norm norm(kind, 24, bias);
      std::int64_t count = 0;
      for (const auto& parameter : norm->parameters()) count += parameter.numel();
      EXPECT_EQ(count, kind == NormKind::layer && bias ? 48 : 24);
    }
}

TEST(Norm, LayerNormTakesTheMeanAwayAndRmsNormDoesNot) {
  const at::Tensor x = random_input({5, 24}, 1).to(at::kFloat) + 3;
  Norm layer(NormKind::layer, 24, true), rms(NormKind::rms, 24, true);
  layer->initialize();
  rms->initialize();
  EXPECT_LT(layer(x).mean(-1).abs().max().item<double>(), 1e-5);
  EXPECT_GT(rms(x).mean(-1).min().item<double>(), 0.5);
  EXPECT_TRUE(at::allclose(rms(x).square().mean(-1), at::ones({5}), 1e-4, 1e-4));
}

}  // namespace
}  // namespace cogwheel::nn
