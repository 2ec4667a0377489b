// How many samples look like references, and how many references are covered by samples.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::images {

struct PrecisionRecall {
  double precision = 0;  // share of samples among the references
  double recall = 0;     // share of references among the samples
};

// An image lies among a set if it is within the ball of one of the set's images, whose radius is the distance to its
// k-th nearest neighbour in the set: Kynkäänniemi et al., "Improved Precision and Recall Metric for Assessing
// Generative Models" (2019), eqs. 1 and 2.
//
// `samples` [images, features], `references` [images, features], more than `neighbour` images each. Distances are
// computed in float64 and in blocks of rows: besides the features in float64 it holds about 64 MiB, whatever their
// number. Throws Error where shapes do not fit.
PrecisionRecall precision_recall(const at::Tensor& samples, const at::Tensor& references, std::int64_t neighbour = 3);

}  // namespace cogwheel::tasks::images
