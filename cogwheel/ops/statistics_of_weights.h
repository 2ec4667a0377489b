// The statistics of rows from their weights.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// weights [B, H, N, M] → [8, B, H, N], in the order of kernels/pairwise/row_statistics.h; log_mass is log Σ|a|.
at::Tensor statistics_of_weights(const at::Tensor& weights);

}  // namespace cogwheel
