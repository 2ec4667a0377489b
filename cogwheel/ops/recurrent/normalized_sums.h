// The quotient of normalised attention with a state, and its feature map, each in one pass over the numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace cogwheel::ops {

// sums [..., W + 1], whose last column is the denominator → [..., W]: numerator / denominator, and 0 where that is 0.
// With `least` [...], a constant: numerator / max(|denominator|, least).
at::Tensor normalized_sums(const at::Tensor& sums, const std::optional<at::Tensor>& least = {});

// elu(x) + 1: x + 1 above 0, and exp(x) below, which the sum with 1 would round.
at::Tensor elu_plus_one(const at::Tensor& x);

}  // namespace cogwheel::ops
