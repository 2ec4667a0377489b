// RetNet.
//
//   S_t = γ S_{t-1} + k_t v_tᵀ
//   Sun et al., "Retentive Network: A Successor to Transformer for Large Language Models" (2023).
//
// γ lies in (0, 1] and is one number for each head, learnable here. Positions are the caller's.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct RetNet {
  static constexpr RecurrentParameter parameters[]{
      {"decay", "H", Values::above_0_to_1},
  };
  static constexpr RecurrentLaw law{
      .name = "retnet",
      .title = "RetNet",
      .transition = Transition::constant,
      .parameters = parameters,
      .formula = "S_t = γ S_{t-1} + k_t v_tᵀ",
      .citation = "Sun et al., Retentive Network (2023)",
  };
};

}  // namespace cogwheel
