// The cross-entropy of tokens where each rank that shares heads has the logits of some of the vocabulary.
//
//   loss = log Σ_r s_r exp(m_r − M) + M − Σ_r t_r      m_r: the largest logit of rank r, s_r: Σ exp(logit − m_r) of its
//                                                      own, M: the largest of all; t_r: the target's logit, or 0
//
// Shoeybi et al., "Megatron-LM" (2019), section 3: three numbers of a row travel, not its logits.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/ranks/shared_pass.h"

namespace cogwheel::nn {

// head_loss of x [n, width], alike on all ranks, by this rank's share of the rows of the head, weight
// [V / ranks, width] and bias [V / ranks] or undefined. Collective. Returns this rank's part of the loss, an equal one,
// whose derivatives are those of what this rank computes: of x they are to be summed over ranks.
at::Tensor divided_head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& targets, const SharedHeads& ranks,
                             std::int64_t logits_bytes = head_logits_bytes);

}  // namespace cogwheel::nn
