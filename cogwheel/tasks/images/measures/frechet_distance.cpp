#include "cogwheel/tasks/images/measures/frechet_distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::tasks::images {
namespace {

constexpr double worst_negative = 1e-3;

void expect_moments(const FeatureMoments& moments, std::int64_t features) {
  if (moments.mean.dim() != 1 || moments.mean.size(0) != features ||
      moments.covariance.sizes() != at::IntArrayRef({features, features}))
    throw Error(expected_got("Fréchet distance", "a mean and a covariance of " + std::to_string(features) + " features",
                             shape_text(moments.mean.sizes()) + " and " + shape_text(moments.covariance.sizes())));
  if (!at::isfinite(moments.mean).all().item<bool>() || !at::isfinite(moments.covariance).all().item<bool>())
    throw Error(expected_got("Fréchet distance", "finite moments", "NaN or infinity"));
}

// S with C = S Sᵀ, [features, rank]; counts what is negative.
at::Tensor covariance_root(const at::Tensor& covariance, FrechetDistance& distance) {
  const auto [values, vectors] = at::linalg_eigh((covariance + covariance.t()) / 2);  // ascending
  const double largest = std::max(values.max().item<double>(), -values.min().item<double>());
  const std::int64_t negative = (values < 0).sum().item<std::int64_t>();
  if (negative > 0) {
    const double share = values.min().item<double>() / largest;
    if (share < -worst_negative)
      throw Error(expected_got("Fréchet distance", "a covariance, without negative eigenvalues",
                               "one of " + number_text(share) + " of the largest"));
    distance.negative_eigenvalues += negative;
    distance.most_negative = std::min(distance.most_negative, share);
  }
  const double rounding = static_cast<double>(values.size(0)) * std::numeric_limits<double>::epsilon() * largest;
  const std::int64_t rank = (values > rounding).sum().item<std::int64_t>(), null = values.size(0) - rank;
  return vectors.narrow(1, null, rank) * values.narrow(0, null, rank).sqrt();
}

}  // namespace

FrechetDistance frechet_distance(const FeatureMoments& first, const FeatureMoments& second) {
  const c10::NoGradGuard no_grad;
  for (const FeatureMoments* moments : {&first, &second}) expect_moments(*moments, first.mean.numel());
  FrechetDistance distance;
  const at::Tensor between = first.mean.to(at::kDouble) - second.mean.to(at::kDouble);
  distance.means = between.dot(between).item<double>();
  const at::Tensor covariance1 = first.covariance.to(at::kDouble), covariance2 = second.covariance.to(at::kDouble);
  const at::Tensor root1 = covariance_root(covariance1, distance), root2 = covariance_root(covariance2, distance);
  double shared = 0;
  if (root1.size(1) > 0 && root2.size(1) > 0)
    shared = at::linalg_svdvals(at::matmul(root1.t(), root2)).sum().item<double>();
  distance.value =
      distance.means + covariance1.trace().item<double>() + covariance2.trace().item<double>() - 2 * shared;
  distance.value = std::max(distance.value, 0.0);  // equal moments, by rounding
  return distance;
}

}  // namespace cogwheel::tasks::images
