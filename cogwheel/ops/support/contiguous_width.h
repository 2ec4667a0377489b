// Kernels read and write rows of contiguous width; all other strides may be anything.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

inline at::Tensor with_contiguous_width(const at::Tensor& tensor) {
  return tensor.size(-1) == 1 || tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

}  // namespace cogwheel::ops
