// The kernels of norm_of_sum on the CPU: one pass over the rows in each direction, on checked, contiguous
// tensors.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

struct NormForward {
  at::Tensor x, delta, weight, bias;  // delta and bias may be undefined
  bool centered;
  double epsilon;
  at::Tensor sum, normed, moments;  // sum is x where delta is undefined
};

struct NormBackward {
  at::Tensor sum, weight, moments;           // of forward
  at::Tensor sum_gradient, normed_gradient;  // the first may be undefined
  bool centered;
  at::Tensor x_gradient, delta_gradient;  // the second undefined if both are the same
  at::Tensor weight_gradient, bias_gradient;
};

void norm_rows(const NormForward& call);
void norm_rows_backward(const NormBackward& call);

}  // namespace cogwheel::ops
