#include "cogwheel/tasks/images/measures/kernel_distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::tasks::images {
namespace {

at::Tensor cubic_kernel(const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor kernel = at::matmul(first, second.t());
  return kernel.div_(static_cast<double>(first.size(1))).add_(1).pow_(3);
}

// Of all pairs of two different images of one set.
double mean_of_pairs(const at::Tensor& set) {
  const double count = static_cast<double>(set.size(0));
  const at::Tensor kernel = cubic_kernel(set, set);
  return (kernel.sum() - kernel.diagonal().sum()).item<double>() / (count * (count - 1));
}

double squared_discrepancy(const at::Tensor& first, const at::Tensor& second) {
  return mean_of_pairs(first) + mean_of_pairs(second) - 2 * cubic_kernel(first, second).mean().item<double>();
}

at::Tensor drawn_subset(const at::Tensor& features, std::int64_t size, std::uint64_t seed, std::uint64_t number) {
  const KeyedOrder order(static_cast<std::uint64_t>(features.size(0)), seed, number);
  const at::Tensor places = at::empty({size}, at::kLong);
  auto* place = places.mutable_data_ptr<std::int64_t>();
  for (std::int64_t index = 0; index < size; ++index)
    place[index] = static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(index)));
  return features.index_select(0, places).to(at::kDouble);
}

}  // namespace

KernelDistance kernel_distance(const at::Tensor& first, const at::Tensor& second,
                               const KernelDistanceOptions& options) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& features : {first, second})
    if (features.dim() != 2 || features.size(0) < 2 || features.size(1) != first.size(-1))
      throw Error(expected_got("kernel distance", "at least 2 images and the same features of each set",
                               shape_text(first.sizes()) + " and " + shape_text(second.sizes())));
  if (options.subsets < 1 || options.subset_size < 2)
    throw UsageError(expected_got("kernel distance", "1 subset of 2 images or more",
                                  std::to_string(options.subsets) + " of " + std::to_string(options.subset_size)));
  KernelDistance distance{.subsets = options.subsets,
                          .subset_size = std::min({options.subset_size, first.size(0), second.size(0)})};
  std::vector<double> values;
  for (std::int64_t subset = 0; subset < options.subsets; ++subset) {
    const auto number = 2 * static_cast<std::uint64_t>(subset);
    values.push_back(squared_discrepancy(drawn_subset(first, distance.subset_size, options.seed, number),
                                         drawn_subset(second, distance.subset_size, options.seed, number + 1)));
  }
  const double count = static_cast<double>(values.size());
  for (const double value : values) distance.mean += value / count;
  for (const double value : values) distance.deviation += (value - distance.mean) * (value - distance.mean) / count;
  distance.deviation = std::sqrt(distance.deviation);
  return distance;
}

}  // namespace cogwheel::tasks::images
