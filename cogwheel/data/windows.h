// Windows of a dataset, as tensors that a model takes.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/data/dataset.h"

namespace cogwheel {

// targets are inputs moved on by one token.
struct Windows {
  at::Tensor inputs, targets;  // [windows, context] int64
};

// `batch` random windows of the training part. They depend on the seed and the step alone, so that runs that share a
// seed share their data order, and a run that resumes needs no state but its step.
Windows training_windows(const Dataset& data, std::int64_t context, std::int64_t batch, std::uint64_t seed,
                         std::int64_t step);

// Every non-overlapping window of the held-out part; where `tokens` is not 0, held_out_window_count of them, evenly
// spread: the same whoever asks.
Windows held_out_windows(const Dataset& data, std::int64_t context, std::int64_t tokens = 0);

}  // namespace cogwheel
