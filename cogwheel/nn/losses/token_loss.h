// The cross-entropy of tokens. A vocabulary of thousands makes logits the largest tensor of a model, and each pass over
// them costs as much as a layer: here there is one, and those of a long text are never all there.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

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

// token_loss of the logits x Wᵀ + b, of which as many rows as take `logits_bytes` in float32 are there at a time:
// x [n, width], weight [V, width], bias [V] or undefined, products as in matrix_product. Where a gradient is needed it
// is computed here too, block by block, so that backward only hands it on. The same throws as token_loss.
inline constexpr std::int64_t head_logits_bytes = 64 << 20;
at::Tensor head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& targets,
                     std::int64_t logits_bytes = head_logits_bytes);

}  // namespace cogwheel::nn
