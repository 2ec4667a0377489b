#include "cogwheel/runs/batch.h"

#include <torch/types.h>

#include <array>

#include "cogwheel/core/token.h"

namespace cogwheel::runs {
namespace {

std::array<at::Tensor*, 8> parts_of(Batch& batch) {
  return {&batch.inputs,         &batch.targets,  &batch.lengths, &batch.source,
          &batch.source_lengths, &batch.segments, &batch.times,   &batch.positions};
}

}  // namespace

Batch slice_of(const Batch& batch, std::int64_t index, std::int64_t slices) {
  const std::int64_t rows = batch.inputs.size(0), first = rows * index / slices,
                     count = rows * (index + 1) / slices - first;
  Batch slice = batch;
  for (at::Tensor* part : parts_of(slice))
    if (part->defined()) *part = part->narrow(0, first, count);
  return slice;
}

Batch pinned(Batch batch) {
  for (at::Tensor* part : parts_of(batch))
    if (part->defined() && part->is_cpu()) *part = part->pin_memory();
  return batch;
}

std::int64_t told_targets(const Batch& batch) { return (batch.targets != ignored_target).sum().item<std::int64_t>(); }

}  // namespace cogwheel::runs
