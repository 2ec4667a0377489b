// The gates of mLSTM, made into decays and weights that no exponential can overflow.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace cogwheel::ops {

// With the running maximum m_t = max(log σ(forget_t) + m_{t−1}, input_t, 0) over the tokens of each sequence, m_0 given
// or 0, in whose units exp(−m_t) all sums up to token t are kept:
struct ExponentialGates {
  at::Tensor log_decay;  // log σ(forget_t) + m_{t−1} − m_t, at most 0
  at::Tensor weight;     // exp(input_t − m_t), of what is written
  at::Tensor least;      // exp(−m_t), what 1 is in these units; without a gradient
  at::Tensor last;       // [sequences, H]: m after the last token; without a gradient, as a choice of units
};

// input and forget [B, H, N], and what is made of them; initial [sequences, H].
ExponentialGates exponential_gates(const at::Tensor& input, const at::Tensor& forget,
                                   const std::optional<at::Tensor>& initial,
                                   const std::optional<at::Tensor>& cu_seqlens);

}  // namespace cogwheel::ops
