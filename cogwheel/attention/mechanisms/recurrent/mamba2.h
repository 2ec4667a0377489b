// Mamba-2.
//
//   S_t = α_t S_{t-1} + k_t v_tᵀ
//   Dao, Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space
//   Duality" (2024), where log α_t = Δ_t a and v_t comes as Δ_t x_t.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Mamba2 {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
  };
  static constexpr RecurrentLaw law{
      .name = "mamba2",
      .title = "Mamba-2",
      .transition = Transition::per_token,
      .parameters = parameters,
      .formula = "S_t = α_t S_{t-1} + k_t v_tᵀ",
      .citation = "Dao, Gu, Transformers are SSMs (2024)",
  };
};

}  // namespace cogwheel
