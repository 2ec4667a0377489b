#include "cogwheel/tasks/images/measures/feature_statistics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/outer.h>
#include <c10/core/GradMode.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::tasks::images {

void FeatureStatistics::add(const at::Tensor& features) {
  const c10::NoGradGuard no_grad;
  if (features.dim() != 2 || (count_ > 0 && features.size(1) != mean_.size(0)))
    throw Error(expected_got("features",
                             count_ > 0 ? "[images, " + std::to_string(mean_.size(0)) + "]" : "[images, features]",
                             shape_text(features.sizes())));
  if (features.size(0) == 0) return;
  const at::Tensor values = features.to(at::kDouble);
  const at::Tensor finite = at::isfinite(values).all(1);
  if (!finite.all().item<bool>())
    throw Error(expected_got(
        "features", "finite numbers",
        "NaN or infinity in image " + std::to_string(count_ + finite.to(at::kInt).argmin().item<std::int64_t>())));
  const at::Tensor mean = at::mean(values, 0), deviations = values - mean;
  merge(values.size(0), mean, at::matmul(deviations.t(), deviations));
}

void FeatureStatistics::merge(const FeatureStatistics& other) {
  const c10::NoGradGuard no_grad;
  if (other.count_ == 0) return;
  if (count_ > 0 && mean_.size(0) != other.mean_.size(0))
    throw Error(
        expected_got("features", std::to_string(mean_.size(0)) + " an image", std::to_string(other.mean_.size(0))));
  merge(other.count_, other.mean_, other.products_);
}

void FeatureStatistics::merge(std::int64_t count, const at::Tensor& mean, const at::Tensor& products) {
  if (count_ == 0) {
    count_ = count, mean_ = mean.clone(), products_ = products.clone();
    return;
  }
  const double before = static_cast<double>(count_), added = static_cast<double>(count), total = before + added;
  const at::Tensor step = mean - mean_;
  products_ += products;
  products_.addr_(step, step, /*beta=*/1, /*alpha=*/before * added / total);
  mean_ += step * (added / total);
  count_ += count;
}

FeatureMoments FeatureStatistics::moments() const {
  if (count_ < 2) throw Error(expected_got("features", "at least 2 images, for a covariance", std::to_string(count_)));
  const c10::NoGradGuard no_grad;
  return {.count = count_, .mean = mean_.clone(), .covariance = products_ / static_cast<double>(count_ - 1)};
}

}  // namespace cogwheel::tasks::images
