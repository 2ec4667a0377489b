// Gated linear attention.
//
//   S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ
//   Yang et al., "Gated Linear Attention Transformers with Hardware-Efficient Training" (2024).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Gla {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHND", Values::at_most_0},
  };
  static constexpr RecurrentLaw law{
      .name = "gla",
      .title = "Gated linear attention",
      .transition = Transition::per_channel,
      .parameters = parameters,
      .formula = "S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ",
      .citation = "Yang et al., Gated Linear Attention Transformers with Hardware-Efficient Training (2024)",
  };
};

}  // namespace cogwheel
