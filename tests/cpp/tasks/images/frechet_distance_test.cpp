// The Fréchet distance where it has a closed form.
#include "cogwheel/tasks/images/measures/frechet_distance.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/error_of.h"

namespace cogwheel::tasks::images::frechet_distance_test {
namespace {

constexpr double tolerance = 1e-9;

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(shape, at::kDouble);
}

at::Tensor drawn_rotation(std::int64_t size) { return std::get<0>(at::linalg_qr(drawn({size, size}, 5))); }

FeatureMoments centred(const at::Tensor& covariance) {
  return {.count = 0, .mean = torch::zeros({covariance.size(0)}, at::kDouble), .covariance = covariance};
}

double distance(const at::Tensor& first, const at::Tensor& second) {
  return frechet_distance(centred(first), centred(second)).value;
}

at::Tensor diagonal(const std::vector<double>& values) { return at::diag(torch::tensor(values, at::kDouble)); }

TEST(FrechetDistance, OfNumbers) {
  const auto normal = [](double mean, double deviation) {
    return FeatureMoments{.count = 0,
                          .mean = torch::tensor({mean}, at::kDouble),
                          .covariance = torch::tensor({{deviation * deviation}}, at::kDouble)};
  };
  const FrechetDistance found = frechet_distance(normal(1, 2), normal(4, 0.5));
  EXPECT_NEAR(found.value, 9 + 1.5 * 1.5, tolerance);
  EXPECT_NEAR(found.means, 9, tolerance);
  EXPECT_NEAR(frechet_distance(normal(-1, 3), normal(-1, 0)).value, 9, tolerance);
  EXPECT_EQ(frechet_distance(normal(2, 0), normal(2, 0)).value, 0);
}

TEST(FrechetDistance, OfCovariancesThatCommute) {
  EXPECT_NEAR(distance(diagonal({4, 1, 0, 9}), diagonal({1, 1, 25, 4})), 1 + 0 + 25 + 1, tolerance);
  const at::Tensor rotation = drawn_rotation(60);
  const at::Tensor first = drawn({60}, 1).abs() + 0.1, second = drawn({60}, 2).abs() + 0.1;  // deviations
  const auto covariance = [&](const at::Tensor& deviations) {
    return (rotation * deviations.square()).mm(rotation.t());
  };
  EXPECT_NEAR(distance(covariance(first), covariance(second)), (first - second).square().sum().item<double>(),
              tolerance);
}

// The square root of a 2×2 matrix M with eigenvalues ≥ 0 has the trace √(tr M + 2 √det M).
TEST(FrechetDistance, OfTwoFeaturesThatDoNotCommute) {
  const at::Tensor first = torch::tensor({{2.0, 0.7}, {0.7, 1.0}}, at::kDouble);
  const at::Tensor second = torch::tensor({{0.5, -0.3}, {-0.3, 3.0}}, at::kDouble);
  const at::Tensor product = first.mm(second);
  const double determinant = product[0][0].item<double>() * product[1][1].item<double>() -
                             product[0][1].item<double>() * product[1][0].item<double>();
  const double root = std::sqrt(product.trace().item<double>() + 2 * std::sqrt(determinant));
  EXPECT_NEAR(distance(first, second), 3 + 3.5 - 2 * root, tolerance);
  EXPECT_NEAR(distance(second, first), distance(first, second), tolerance);
}

// x ↦ T x with T symmetric and positive moves a Gaussian by the shortest way (Brenier), so the distance to the moved
// one is E|T x − x|², whatever the rank of the covariance: here of 30 images in 80 features, and of 200.
TEST(FrechetDistance, OfASetAndWhatAPositiveMatrixMakesOfIt) {
  const at::Tensor rotation = drawn_rotation(80);
  const at::Tensor map = (rotation * (drawn({80}, 3).abs() + 0.2)).mm(rotation.t());
  for (const std::int64_t images : {30, 200}) {
    FeatureStatistics before, after;
    const at::Tensor features = drawn({images, 80}, 6);
    before.add(features);
    after.add(features.mm(map) + 2);
    const FeatureMoments first = before.moments(), second = after.moments();
    const at::Tensor change = map - torch::eye(80, at::kDouble);
    const double expected = change.mm(first.covariance).mm(change).trace().item<double>() +
                            (second.mean - first.mean).square().sum().item<double>();
    EXPECT_NEAR(frechet_distance(first, second).value, expected, 1e-9 * expected) << images;
  }
}

TEST(FrechetDistance, OfCovariancesOfRankOne) {
  const at::Tensor first = drawn({50}, 7), second = drawn({50}, 8);
  const double expected = (first.dot(first) + second.dot(second) - 2 * first.dot(second).abs()).item<double>();
  EXPECT_NEAR(distance(at::outer(first, first), at::outer(second, second)), expected, tolerance);
  EXPECT_NEAR(distance(at::outer(first, first), torch::zeros({50, 50}, at::kDouble)), first.dot(first).item<double>(),
              tolerance);
}

// Square roots of eigenvalues that are 0 but for rounding would give 1e-6 here.
TEST(FrechetDistance, OfFewImagesToThemselvesIsZero) {
  FeatureStatistics statistics;
  statistics.add(drawn({12, 500}, 9) * 10);
  const FeatureMoments moments = statistics.moments();
  const FrechetDistance found = frechet_distance(moments, moments);
  EXPECT_NEAR(found.value, 0, tolerance);
  EXPECT_GT(found.negative_eigenvalues, 0);
  EXPECT_LT(found.most_negative, 0);
  EXPECT_GT(found.most_negative, -1e-12);
}

// Against the identity, the deviations of few images are those of their features, and 0 in all other directions.
TEST(FrechetDistance, OfFewImagesToAllDirectionsAlike) {
  FeatureStatistics statistics;
  const at::Tensor features = drawn({12, 500}, 9) * 10;
  statistics.add(features);
  const at::Tensor deviations = at::linalg_svdvals(features - features.mean(0)) / std::sqrt(11);
  const double expected = (deviations - 1).square().sum().item<double>() + 500 - 12;
  EXPECT_NEAR(distance(statistics.moments().covariance, torch::eye(500, at::kDouble)), expected, 1e-11 * expected);
}

TEST(FrechetDistance, KeepsSmallEigenvaluesThatAreNoRounding) {
  EXPECT_NEAR(distance(diagonal({1, 1e-12}), diagonal({1, 1})), (1 - 1e-6) * (1 - 1e-6), tolerance);
}

TEST(FrechetDistance, SaysWhichEigenvaluesItTookAsZero) {
  const FrechetDistance found = frechet_distance(centred(diagonal({4, -4e-6, 1})), centred(diagonal({1, 1, 1})));
  EXPECT_EQ(found.negative_eigenvalues, 1);
  EXPECT_NEAR(found.most_negative, -1e-6, 1e-12);
  EXPECT_NEAR(found.value, 1 + 1 + 0 - 4e-6, tolerance);
  EXPECT_EQ(frechet_distance(centred(diagonal({4, 1})), centred(diagonal({1, 1}))).negative_eigenvalues, 0);
}

TEST(FrechetDistance, RefusesWhatIsNoCovariance) {
  EXPECT_EQ(error_of([] {
              distance(diagonal({4, -0.5}), diagonal({1, 1}));
            }),
            "Fréchet distance: expected a covariance, without negative eigenvalues, got one of -0.125 of the largest");
  EXPECT_EQ(error_of([] {
              distance(diagonal({4, 1}), diagonal({1, 1, 1}));
            }),
            "Fréchet distance: expected a mean and a covariance of 2 features, got [3] and [3, 3]");
  EXPECT_EQ(error_of([] {
              distance(diagonal({4, NAN}), diagonal({1, 1}));
            }),
            "Fréchet distance: expected finite moments, got NaN or infinity");
}

}  // namespace
}  // namespace cogwheel::tasks::images::frechet_distance_test
