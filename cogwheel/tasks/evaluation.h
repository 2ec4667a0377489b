// Measures as means over many items, part by part.
#pragma once
#include <functional>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/head_statistics.h"
#include "cogwheel/train/batch.h"

namespace cogwheel {

struct PartialMeans {
  std::vector<double> means;
  double weight = 0;  // how much they count
};

// The weighted means of what `measure` says of each part of `all`, cut along the first dimension into parts of up to
// 4,096 tokens, whatever the training batch: sums are then in one order for every run. In `heads`, where it is not
// null, what the heads of the model do with the first part.
std::vector<double> mean_in_parts(const Batch& all, StatisticsOfHeads* heads,
                                  const std::function<PartialMeans(const Batch&, const ForwardContext&)>& measure);

}  // namespace cogwheel
