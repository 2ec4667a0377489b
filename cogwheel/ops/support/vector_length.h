// The length of vectors, differentiable any number of times, forward and backward. ATen's own changes a tensor of its
// backward pass in place, so a gradient of a tangent of a gradient raises an error about that.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// x [..., width] → |x| [..., 1]. The bits and first gradients of at::linalg_vector_norm; a vector of length 0 has a
// derivative of 0.
at::Tensor vector_length(const at::Tensor& x);

}  // namespace cogwheel::ops
