// The sum of a residual stream and what is added to it, and the norm of that sum, in one pass over memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// normed = (sum − mean) · inverse · weight + bias with sum = x + delta and inverse = 1 / √(mean square + epsilon), over
// the last dimension; the mean counts as 0 unless `centered`.
//
// x [..., width], float32 or float64; delta [..., width] of the same type, or bfloat16 beside float32; weight and bias
// [width] in the type of x. Without delta the sum is x, and the returned sum is empty. `normed` is bfloat16 where
// `in_bfloat16`, which float32 alone allows, rounded once. moments [..., 2]: mean and inverse, without derivatives.
// Differentiable twice, the second time by a composition; gradients are the same bits for any number of threads.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_of_sum(const at::Tensor& x, const OptionalTensor& delta,
                                                           const at::Tensor& weight, const OptionalTensor& bias,
                                                           bool centered, double epsilon, bool in_bfloat16);

}  // namespace cogwheel::ops
