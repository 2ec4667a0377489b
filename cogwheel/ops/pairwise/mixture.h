// Mixtures of two maps over shared values: combinations of a query's adjacent sub-heads.
//
//   cogwheel::subtract_sub_heads(output, coefficient) → o₁ − λ o₂
//   cogwheel::subtract_sub_heads_backward(…) → (∂L/∂output, ∂L/∂coefficient), ∂L/∂λ = −Σ do·o₂
//
// output [B, 2H, N, Dv] with o₁ and o₂ adjacent, coefficient [B or 1, H or 1, N or 1] → [B, H, N, Dv]. One pass in each
// direction, and a sum for λ whose order does not depend on the threads.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace cogwheel::ops {

// Dispatches cogwheel::subtract_sub_heads.
at::Tensor subtract_sub_heads(const at::Tensor& output, const at::Tensor& coefficient);

// Dispatches cogwheel::subtract_sub_heads_backward.
std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward(const at::Tensor& gradient, const at::Tensor& output,
                                                               const at::Tensor& coefficient);

}  // namespace cogwheel::ops
