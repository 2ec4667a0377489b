// The cross-entropy of tokens, in one pass over their logits: a vocabulary of thousands makes them the largest tensor
// of a model, and each pass over it costs as much as a layer.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::nn {

// The mean over n tokens of −(1 − smoothing) log p(target) − smoothing/V Σ log p, in nats: logits [n, V] in float64,
// float32 or bfloat16, targets [n] int64, each below V → a scalar in float32, or float64. Where a gradient is needed,
// it takes the place of the logits: who reads them afterwards reads the gradient, and autograd refuses a backward pass
// that needs them. Computed in float32, or float64. Backward under create_graph throws std::logic_error, as the
// gradient is not differentiable itself. Throws Error for no tokens, other shapes, and targets out of range.
//
//   ∂/∂logits = (p − (1 − smoothing) [target] − smoothing/V) / n
//   Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2016), section 7, for the smoothing.
at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing = 0);

}  // namespace cogwheel::nn
