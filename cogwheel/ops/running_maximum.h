// The running maximum of the exponents of mLSTM.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace cogwheel {

// m_t = max(log_decay_t + m_{t−1}, input_t, 0) over the tokens of each sequence, with m_0 `initial` [sequences, H] or
// 0: [B, H, N], in the dtype of log_decay. It has no gradient: it scales what is summed, and no sum depends on it.
at::Tensor running_maximum(const at::Tensor& log_decay, const at::Tensor& input,
                           const std::optional<at::Tensor>& initial, const std::optional<at::Tensor>& cu_seqlens);

}  // namespace cogwheel
