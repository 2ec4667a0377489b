// Kernels read and write rows of contiguous width; all other strides may be anything.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

inline at::Tensor with_contiguous_width(const at::Tensor& tensor) {
  return tensor.size(-1) == 1 || tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

// A number for each token [B, H, N], or a row of them, as rows.
inline at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(-1) : with_contiguous_width(tensor);
}

}  // namespace cogwheel::ops
