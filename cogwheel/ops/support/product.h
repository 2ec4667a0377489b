// Matrix products in the dtype of their operands. torch.autocast rounds those of ATen, their backward passes included.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// a [..., n, k] times b [..., k, m] → [..., n, m], of at least 3 dimensions, where those before the last two broadcast.
// The bits and derivatives of at::matmul without autocast.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

}  // namespace cogwheel::ops
