// The addition to the residual stream and the norm that the next layer reads, in one pass over memory.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/nn/options/norm_kind.h"

namespace cogwheel::nn {

struct NormOfSum {
  at::Tensor sum, normed;
};

// sum = x + delta, normed = norm(sum) · weight + bias, over the last dimension.
//
// x [..., width], float32 or float64; delta [..., width] of the same type, or bfloat16 beside float32, or undefined:
// then sum is x itself. weight [width]; bias [width] or undefined. With `in_bfloat16`, which is allowed for float32
// only, `normed` is rounded once to bfloat16. Twice differentiable in all of them; gradients are the same bits for any
// number of threads (ops/layers/norm_of_sum.h).
NormOfSum norm_of_sum(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, const at::Tensor& bias,
                      NormKind kind, double epsilon, bool in_bfloat16 = false);

}  // namespace cogwheel::nn
