// Gated DeltaNet.
//
//   S'_t = α_t S_{t-1}, S_t = S'_t + β_t k_t (v_t - S'_tᵀ k_t)ᵀ
//   Yang, Kautz, Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule" (2024), with one α for a token
//   and head.
//
// One α for each row of the state, α_t 1ᵀ ∘ S_{t-1}, is allowed too.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent/deltanet.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct GatedDeltaNet {
  static constexpr RecurrentParameter parameters[]{
      {"beta", "BHN", Values::from_0_to_2},
      {"log_decay", "BHN|BHND", Values::at_most_0},
  };
  static constexpr RecurrentLaw law{
      .name = "gated_deltanet",
      .title = "Gated DeltaNet",
      .transition = Transition::per_token,
      .walks = Walks::delta,
      .parameters = parameters,
      .formula = "S'_t = α_t S_{t-1}, S_t = S'_t + β_t k_t (v_t - S'_tᵀ k_t)ᵀ",
      .citation = "Yang et al., Gated Delta Networks: Improving Mamba2 with Delta Rule (2024)",
      .options = DeltaNet::options,
  };
};

}  // namespace cogwheel
