// The statistics of rows from their weights.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// weights [B, H, N, M] → [12, B, H, N], in the order of attention/kernels/pairwise/row_statistics.h; log_mass is log
// Σ|a|. `keys` broadcasts to [B, H, N]: how many each query sees.
at::Tensor statistics_of_weights(const at::Tensor& weights, const at::Tensor& keys);

// [N] or [B, 1, N]: how many of `keys` each of N queries sees, the last of which stand at the last keys if `causal`;
// lengths [B], undefined for all.
at::Tensor keys_seen(const c10::SymInt& queries, const c10::SymInt& keys, bool causal, const at::Tensor& lengths,
                     const at::Tensor& like);

}  // namespace cogwheel::ops
