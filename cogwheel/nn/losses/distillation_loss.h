// The cross-entropy of tokens beside the divergence from another model's distribution over them: Hinton, Vinyals, Dean,
// "Distilling the Knowledge in a Neural Network" (2015), section 2.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/nn/losses/token_loss.h"

namespace cogwheel::nn {

// What the teacher's head reads of the same tokens, and the head. No gradient reaches them.
struct TeacherHead {
  at::Tensor x, weight, bias = {};  // [n, its width], [V, its width], [V] or undefined
};

// The mean over n tokens of (1 − share) · −log p(target) + share · T² Σ p′ log(p′ / q′), in nats, where p′ is the
// softmax of the teacher's logits over T and q′ that of x Wᵀ + b over T: T² keeps the size of the gradient whatever T
// is. x [n, width], weight [V, width], bias [V] or undefined, targets [n]. As head_loss (token_loss.h), of whose logits
// and the teacher's as many rows are there at a time as take `logits_bytes` together.
//
//   ∂/∂logits = ((1 − share) (p − [target]) + share T (q′ − p′)) / n
at::Tensor distilled_head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const at::Tensor& targets, const TeacherHead& teacher, double share, double temperature,
                               std::int64_t logits_bytes = head_logits_bytes);

}  // namespace cogwheel::nn
