// Mean and covariance of the features of images, which arrive in batches.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::images {

struct FeatureMoments {
  std::int64_t count = 0;  // images; 0 where a file does not say
  at::Tensor mean;         // [features], float64
  at::Tensor covariance;   // [features, features], float64, of a sample: the sum of products over count − 1
};

// Sums in float64 about the mean so far (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances", 1979): a mean far from 0 costs no digits, as it does in E[x²] − E[x]². The same batches
// give the same bits, and other batches the same numbers to rounding.
class FeatureStatistics {
 public:
  // [images, features], of any floating type. Throws Error where they are not finite, or not as wide as before.
  void add(const at::Tensor& features);
  void merge(const FeatureStatistics& other);

  std::int64_t count() const { return count_; }
  // Throws Error for fewer than two images, which have no covariance.
  FeatureMoments moments() const;

 private:
  void merge(std::int64_t count, const at::Tensor& mean, const at::Tensor& products);

  std::int64_t count_ = 0;
  at::Tensor mean_, products_;  // products of deviations, summed: [features, features]
};

}  // namespace cogwheel::tasks::images
