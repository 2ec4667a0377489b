// Decaying fast weights.
//
//   S_t = α_t β_tᵀ ∘ S_{t-1} + k_t v_tᵀ, α_t = exp(log_decay), β_t = exp(log_value_decay)
//   Mao, "Fine-Tuning Pre-trained Transformers into Decaying Fast Weights" (2022).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Dfw {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHND", Values::at_most_0},
      {"log_value_decay", "BHNV", Values::at_most_0},
  };
  static constexpr RecurrentLaw law{
      .name = "dfw",
      .title = "Decaying fast weights",
      .transition = Transition::per_channel,
      .parameters = parameters,
      .formula = "S_t = α_t β_tᵀ ∘ S_{t-1} + k_t v_tᵀ",
      .citation = "Mao, Fine-Tuning Pre-trained Transformers into Decaying Fast Weights (2022)",
  };
};

}  // namespace cogwheel
