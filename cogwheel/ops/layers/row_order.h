// Matrices whose rows lie one after another, as libraries want them.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// The same float32 matrix [rows, width] with contiguous rows: itself where it has them, else a copy. Transposed ones,
// which backward passes multiply, are copied block by block on all threads: ATen's copy uses one and takes three times
// as long (docs/performance.md).
at::Tensor in_row_order(const at::Tensor& matrix);

}  // namespace cogwheel::ops
