// RWKV-6.
//
//   o_t = S_{t-1}ᵀ q_t + (q_t·(u ∘ k_t)) v_t, then S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ
//   Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence" (2024), where log α_t is
//   -exp(w_t). A token reads before its own decay and write; u, the bonus, is its weight for itself.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Rwkv6 {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHND", Values::at_most_0},
      {"bonus", "HD"},
  };
  static constexpr RecurrentLaw law{
      .name = "rwkv6",
      .title = "RWKV-6",
      .transition = Transition::per_channel,
      .read = Read::before_with_bonus,
      .parameters = parameters,
      .formula = "S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ, o_t = S_{t-1}ᵀ q_t + (q_t·(u ∘ k_t)) v_t",
      .citation = "Peng et al., Eagle and Finch (2024)",
  };
};

}  // namespace cogwheel
