// Graves' window (attention/mechanisms/graves_window.h) as an operator.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// alpha, beta and kappa [B, K] or, for T steps at once, [B, T, K]; values [B, U, D]; lengths [B] int64, without which
// all entries have U positions. float32 or float64.
//
// → w [B, D] or [B, T, D], the sum of the values under the window, and φ [B, U + 1] or [B, T, U + 1]. Column u − 1 is
// the weight of position u, counted from 1. An entry has one position more than its length, for the stop rule, and 0 in
// the columns beyond; values beyond its length are not read. On the CPU a beta that is not above 0 and an alpha below 0
// are refused. Differentiable any number of times, from the second on by a composition; gradients are the same bits for
// any number of threads.
std::tuple<at::Tensor, at::Tensor> soft_window(const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& kappa,
                                               const at::Tensor& values, const OptionalTensor& lengths);

}  // namespace cogwheel::ops
