#include "cogwheel/diffusion/noise.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace cogwheel {
namespace {

TEST(Noise, OfAnImageDoesNotDependOnItsBatch) {
  const at::Tensor whole = Noise(7).normal(at::empty({5, 3, 8, 8}), 2);
  EXPECT_TRUE(Noise(7, 3).normal(at::empty({2, 3, 8, 8}), 2).equal(whole.slice(0, 3)));
  EXPECT_FALSE(Noise(7).normal(at::empty({5, 3, 8, 8}), 3).equal(whole));
  EXPECT_FALSE(Noise(8).normal(at::empty({5, 3, 8, 8}), 2).equal(whole));
}

TEST(Noise, IsNormalAndIndependent) {
  const at::Tensor noise = Noise(1).normal(at::empty({400, 200}, at::kDouble), 0);
  const double deviation = 1 / std::sqrt(80000.0);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 4 * deviation);
  EXPECT_NEAR(noise.square().mean().item<double>(), 1, 4 * std::sqrt(2.0) * deviation);
  EXPECT_NEAR((noise.slice(0, 1) * noise.slice(0, 0, 399)).mean().item<double>(), 0, 4 * deviation);
  const at::Tensor next = Noise(1).normal(at::empty({400, 200}, at::kDouble), 1);
  EXPECT_NEAR((noise * next).mean().item<double>(), 0, 4 * deviation);
}

}  // namespace
}  // namespace cogwheel
