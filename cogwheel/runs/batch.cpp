#include "cogwheel/runs/batch.h"

#include <torch/types.h>

#include "cogwheel/core/token.h"

namespace cogwheel::runs {

Batch slice_of(const Batch& batch, std::int64_t index, std::int64_t slices) {
  const std::int64_t rows = batch.inputs.size(0), first = rows * index / slices,
                     count = rows * (index + 1) / slices - first;
  Batch slice = batch;
  for (at::Tensor* part : {&slice.inputs, &slice.targets, &slice.lengths, &slice.source, &slice.source_lengths,
                           &slice.segments, &slice.times})
    if (part->defined()) *part = part->narrow(0, first, count);
  return slice;
}

std::int64_t told_targets(const Batch& batch) { return (batch.targets != ignored_target).sum().item<std::int64_t>(); }

}  // namespace cogwheel::runs
