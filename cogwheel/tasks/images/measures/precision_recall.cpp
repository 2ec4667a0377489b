#include "cogwheel/tasks/images/measures/precision_recall.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::tasks::images {
namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 21;  // 16 MiB, of which a few are alive at a time

// A set with the squared lengths of its features.
struct PointSet {
  at::Tensor points, lengths;  // [images, features], [images]

  explicit PointSet(const at::Tensor& features) : points(features), lengths((features * features).sum(1)) {}
  std::int64_t size() const { return points.size(0); }
};

// [rows, to.size()], for rows `first` … of `from`.
at::Tensor squared_distances(const PointSet& from, std::int64_t first, std::int64_t rows, const PointSet& to) {
  at::Tensor distances = at::matmul(from.points.narrow(0, first, rows), to.points.t());
  distances.mul_(-2).add_(from.lengths.narrow(0, first, rows).unsqueeze(1)).add_(to.lengths);
  return distances.clamp_min_(0);
}

template <class Block>  // block(first row, rows)
void for_blocks(std::int64_t rows, std::int64_t columns, const Block& block) {
  const std::int64_t size = std::max<std::int64_t>(1, block_elements / columns);
  for (std::int64_t first = 0; first < rows; first += size) block(first, std::min(size, rows - first));
}

// [images]: squared distance of each to its k-th nearest neighbour, itself left out.
at::Tensor squared_radii(const PointSet& set, std::int64_t neighbour) {
  const at::Tensor radii = at::empty({set.size()}, set.points.options());
  for_blocks(set.size(), set.size(), [&](std::int64_t first, std::int64_t rows) {
    at::Tensor distances = squared_distances(set, first, rows, set);
    distances.diagonal(first).fill_(std::numeric_limits<double>::infinity());
    radii.narrow(0, first, rows).copy_(std::get<0>(at::kthvalue(distances, neighbour, 1)));
  });
  return radii;
}

}  // namespace

PrecisionRecall precision_recall(const at::Tensor& samples, const at::Tensor& references, std::int64_t neighbour) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& features : {samples, references})
    if (neighbour < 1 || features.dim() != 2 || features.size(0) <= neighbour || features.size(1) != samples.size(-1))
      throw Error(expected_got("precision and recall",
                               "more than " + std::to_string(neighbour) + " images and the same features of each set",
                               shape_text(samples.sizes()) + " and " + shape_text(references.sizes())));
  // Distances do not change; their digits are kept where all features lie far from 0.
  const at::Tensor centre = at::mean(references.to(at::kDouble), 0);
  const PointSet sample_set(samples.to(at::kDouble) - centre), reference_set(references.to(at::kDouble) - centre);
  const at::Tensor sample_radii = squared_radii(sample_set, neighbour), radii = squared_radii(reference_set, neighbour);
  const at::Tensor covered = at::zeros({reference_set.size()}, at::kBool);
  std::int64_t realistic = 0;
  for_blocks(sample_set.size(), reference_set.size(), [&](std::int64_t first, std::int64_t rows) {
    const at::Tensor distances = squared_distances(sample_set, first, rows, reference_set);
    realistic += (distances <= radii).any(1).sum().item<std::int64_t>();
    covered.logical_or_((distances <= sample_radii.narrow(0, first, rows).unsqueeze(1)).any(0));
  });
  return {
      .precision = static_cast<double>(realistic) / static_cast<double>(sample_set.size()),
      .recall = static_cast<double>(covered.sum().item<std::int64_t>()) / static_cast<double>(reference_set.size())};
}

}  // namespace cogwheel::tasks::images
