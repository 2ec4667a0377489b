#include "cogwheel/tasks/images/measures/feature_statistics.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/error_of.h"

namespace cogwheel::tasks::images::feature_statistics_test {
namespace {

at::Tensor drawn(std::int64_t images, std::int64_t features) {
  torch::manual_seed(4);
  return torch::randn({images, features}, at::kDouble);
}

FeatureMoments moments_of(const at::Tensor& features) {
  FeatureStatistics statistics;
  statistics.add(features);
  return statistics.moments();
}

TEST(FeatureStatistics, AreThoseOfNumbersKnownByHeart) {
  const FeatureMoments moments = moments_of(torch::tensor({{1.0, 2.0}, {3.0, 2.0}, {5.0, 8.0}}));
  EXPECT_EQ(moments.count, 3);
  EXPECT_TRUE(at::allclose(moments.mean, torch::tensor({3.0, 4.0}, at::kDouble), 0, 1e-15));
  EXPECT_TRUE(at::allclose(moments.covariance, torch::tensor({{4.0, 6.0}, {6.0, 12.0}}, at::kDouble), 0, 1e-14));
}

TEST(FeatureStatistics, BatchesAndMergesGiveWhatOneBatchGives) {
  // E[x²] − E[x]² would keep four digits of these.
  const at::Tensor features = drawn(301, 20) + 1e6;
  const at::Tensor deviations = features - features.mean(0);
  const at::Tensor covariance = deviations.t().mm(deviations) / 300;
  FeatureStatistics first, second, empty;
  for (std::int64_t start = 0; start < 301; start += 7) {
    const at::Tensor batch = features.narrow(0, start, std::min<std::int64_t>(7, 301 - start));
    (start < 100 ? first : second).add(batch);
  }
  first.add(features.narrow(0, 0, 0));
  first.merge(second);
  first.merge(empty);
  empty.merge(first);
  for (const FeatureStatistics* statistics : {&first, &empty}) {
    const FeatureMoments moments = statistics->moments();
    EXPECT_EQ(moments.count, 301);
    EXPECT_TRUE(at::allclose(moments.mean, features.mean(0), 1e-15, 0));
    EXPECT_TRUE(at::allclose(moments.covariance, covariance, 0, 1e-9));
  }
}

TEST(FeatureStatistics, OfFloat32AreSummedInFloat64) {
  const at::Tensor features = drawn(4000, 3).to(at::kFloat);
  const FeatureMoments moments = moments_of(features), exact = moments_of(features.to(at::kDouble));
  EXPECT_EQ(moments.mean.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(moments.mean, exact.mean));
  EXPECT_TRUE(at::equal(moments.covariance, exact.covariance));
}

TEST(FeatureStatistics, RefuseWhatHasNoMoments) {
  FeatureStatistics statistics;
  EXPECT_EQ(error_of([&] { statistics.moments(); }), "features: expected at least 2 images, for a covariance, got 0");
  statistics.add(drawn(1, 3));
  EXPECT_EQ(error_of([&] { statistics.moments(); }), "features: expected at least 2 images, for a covariance, got 1");
  EXPECT_EQ(error_of([&] { statistics.add(drawn(2, 4)); }), "features: expected [images, 3], got [2, 4]");
  at::Tensor broken = drawn(5, 3);
  broken[2][1] = INFINITY;
  EXPECT_EQ(error_of([&] { statistics.add(broken); }),
            "features: expected finite numbers, got NaN or infinity in image 3");
  FeatureStatistics wider;
  wider.add(drawn(2, 4));
  EXPECT_EQ(error_of([&] { statistics.merge(wider); }), "features: expected 3 an image, got 4");
  EXPECT_EQ(statistics.count(), 1);
}

}  // namespace
}  // namespace cogwheel::tasks::images::feature_statistics_test
