#include "cogwheel/tasks/images/diffusion/noise.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <set>

namespace cogwheel::tasks::images {
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

// Of a generator whose seed is cut to 32 bits, 200,000 draws have five pairs that are the same.
TEST(Noise, NoTwoDrawsBeginAlike) {
  std::set<std::array<float, 4>> beginnings;
  for (std::int64_t draw = 0; draw < 100; ++draw) {
    const at::Tensor noise = Noise(1).normal(at::empty({2000, 4}), draw);
    for (const float* begin = noise.const_data_ptr<float>(); begin < noise.const_data_ptr<float>() + 8000; begin += 4)
      beginnings.insert({begin[0], begin[1], begin[2], begin[3]});
  }
  EXPECT_EQ(beginnings.size(), 200'000u);
}

TEST(Noise, IsNormalToItsTails) {
  // Counts beyond 1, 2, 3 and 4 deviations of two million, and the fourth moment.
  const at::Tensor noise = Noise(2).normal(at::empty({20, 100'000}), 3);
  const double count = 2e6;
  for (const double bound : {1.0, 2.0, 3.0, 4.0}) {
    const double expected = std::erfc(bound / std::sqrt(2.0)) * count;
    EXPECT_NEAR((noise.abs() > bound).sum().item<double>(), expected, 5 * std::sqrt(expected)) << bound;
  }
  EXPECT_NEAR(noise.to(at::kDouble).pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / count));
  // Numbers of one counter do not go with each other.
  const at::Tensor fours = noise.to(at::kDouble).view({-1, 4});
  const at::Tensor correlations = at::matmul(fours.t(), fours) / fours.size(0);
  EXPECT_LE((correlations - at::eye(4, at::kDouble)).abs().max().item<double>(), 5 * std::sqrt(2.0 * 4 / count));
  const at::Tensor squares = fours.square() - 1;
  const at::Tensor of_squares = at::matmul(squares.t(), squares) / fours.size(0) / 2;
  EXPECT_LE((of_squares - at::eye(4, at::kDouble)).abs().max().item<double>(), 5 * std::sqrt(14.0 * 4 / count));
}

TEST(Noise, HasTheTypeThatIsAskedFor) {
  const at::Tensor wide = Noise(1).normal(at::empty({3, 7}, at::kDouble), 1),
                   plain = Noise(1).normal(at::empty({3, 7}), 1);
  EXPECT_TRUE(wide.to(at::kFloat).equal(plain));
  EXPECT_EQ(Noise(1).normal(at::empty({3, 7}, at::kBFloat16), 1).scalar_type(), at::kBFloat16);
  EXPECT_EQ(Noise(1).normal(at::empty({0, 7}), 1).numel(), 0);
}

}  // namespace
}  // namespace cogwheel::tasks::images
