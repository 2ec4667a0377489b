// Windows of a dataset, as input tensors of a model.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/text/dataset.h"

namespace cogwheel::tasks::language {

// The targets are the inputs shifted by one token.
struct Windows {
  at::Tensor inputs, targets;  // [windows, context] int64
};

// `batch` random windows of the training part. They depend only on the seed and the step, so that runs with the same
// seed see the same data in the same order, and a resumed run needs no state but its step.
Windows training_windows(const text::Dataset& data, std::int64_t context, std::int64_t batch, std::uint64_t seed,
                         std::int64_t step);

// Every non-overlapping window of the held-out part; unless `tokens` is 0, held_out_window_count of them, evenly spread
// and always the same.
Windows held_out_windows(const text::Dataset& data, std::int64_t context, std::int64_t tokens = 0);

}  // namespace cogwheel::tasks::language
