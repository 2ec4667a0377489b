// Which keys any query sees, for code that transforms all keys before a kernel skips the hidden ones.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// key [B, Hk, M, D] with 0 where no query sees the key. A key that is hidden may hold anything, NaN too, and the
// gradient of a product with it would be 0·NaN. The same tensor if options hide nothing. Differentiable; O(queries +
// keys), and O(queries · keys) beside a bias that has a row for each query.
at::Tensor without_unseen(const at::Tensor& key, const c10::SymInt& queries, const PairwiseOptions& options);

}  // namespace cogwheel::ops
