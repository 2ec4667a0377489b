// Gated RFA.
//
//   S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ, o_t = S_tᵀ q_t / (z_t·q_t)
//   Peng et al., "Random Feature Attention" (2021), with the features of keys and queries made by the caller.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct GatedRfa {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
  };
  static constexpr RecurrentLaw law{
      .name = "gated_rfa",
      .title = "Gated RFA",
      .transition = Transition::per_token,
      .write = Write::key_by_complement,
      .normalizer = Normalizer::always,
      .parameters = parameters,
      .formula = "S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ, o_t = S_tᵀ q_t / (z_t·q_t)",
      .citation = "Peng et al., Random Feature Attention (2021)",
  };
};

}  // namespace cogwheel
