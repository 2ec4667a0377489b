#include "cogwheel/tasks/images/measures/kernel_distance.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/error_of.h"

namespace cogwheel::tasks::images::kernel_distance_test {
namespace {

at::Tensor drawn(std::int64_t images, std::int64_t features, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({images, features}, at::kDouble);
}

// The definition, pair by pair.
double discrepancy_by_pairs(const at::Tensor& first, const at::Tensor& second) {
  const auto kernel = [](const at::Tensor& x, const at::Tensor& y) {
    return std::pow(x.dot(y).item<double>() / static_cast<double>(x.size(0)) + 1, 3);
  };
  const auto within = [&](const at::Tensor& set) {
    double sum = 0;
    for (std::int64_t i = 0; i < set.size(0); ++i)
      for (std::int64_t j = 0; j < set.size(0); ++j) sum += i == j ? 0 : kernel(set[i], set[j]);
    return sum / static_cast<double>(set.size(0) * (set.size(0) - 1));
  };
  double across = 0;
  for (std::int64_t i = 0; i < first.size(0); ++i)
    for (std::int64_t j = 0; j < second.size(0); ++j) across += kernel(first[i], second[j]);
  return within(first) + within(second) - 2 * across / static_cast<double>(first.size(0) * second.size(0));
}

TEST(KernelDistance, OfAllImagesIsItsDefinition) {
  const at::Tensor first = drawn(9, 4, 1), second = drawn(9, 4, 2) * 1.5 + 0.3;
  const KernelDistance found = kernel_distance(first, second, {.subsets = 3, .subset_size = 1000});
  EXPECT_EQ(found.subsets, 3);
  EXPECT_EQ(found.subset_size, 9);
  EXPECT_NEAR(found.mean, discrepancy_by_pairs(first, second), 1e-12);
  EXPECT_NEAR(found.deviation, 0, 1e-12);  // every subset is the whole set, in another order
}

// Over all pairs of values that a subset of two can have: the mean over many subsets is that of all images.
TEST(KernelDistance, HasTheSameMeanForAnySubsetSize) {
  const at::Tensor first = drawn(12, 2, 3), second = drawn(10, 2, 4) + 0.5;
  const KernelDistance found = kernel_distance(first, second, {.subsets = 4000, .subset_size = 4});
  EXPECT_EQ(found.subset_size, 4);
  EXPECT_NEAR(found.mean, discrepancy_by_pairs(first, second), 5 * found.deviation / std::sqrt(4000));
  EXPECT_GT(found.deviation, 0);
}

TEST(KernelDistance, IsSmallForAlikeSetsAndLargeForOthers) {
  const at::Tensor first = drawn(600, 16, 5), alike = drawn(500, 16, 6), shifted = alike + 0.5;
  const KernelDistanceOptions options{.subsets = 20, .subset_size = 300};
  const KernelDistance near = kernel_distance(first, alike, options), far = kernel_distance(first, shifted, options);
  EXPECT_LT(std::abs(near.mean), 0.02);
  EXPECT_GT(far.mean, 0.3);
}

TEST(KernelDistance, FollowsFromTheSeed) {
  const at::Tensor first = drawn(40, 3, 7), second = drawn(50, 3, 8);
  const auto mean = [&](std::uint64_t seed) {
    return kernel_distance(first, second, {.subsets = 5, .subset_size = 10, .seed = seed}).mean;
  };
  EXPECT_EQ(mean(1), mean(1));
  EXPECT_NE(mean(1), mean(2));
}

TEST(KernelDistance, RefusesSetsThatDoNotFit) {
  EXPECT_EQ(error_of([] { kernel_distance(drawn(1, 3, 1), drawn(5, 3, 1)); }),
            "kernel distance: expected at least 2 images and the same features of each set, got [1, 3] and [5, 3]");
  EXPECT_EQ(error_of([] { kernel_distance(drawn(5, 3, 1), drawn(5, 2, 1)); }),
            "kernel distance: expected at least 2 images and the same features of each set, got [5, 3] and [5, 2]");
  EXPECT_THROW(kernel_distance(drawn(5, 3, 1), drawn(5, 3, 1), {.subsets = 0}), UsageError);
}

}  // namespace
}  // namespace cogwheel::tasks::images::kernel_distance_test
