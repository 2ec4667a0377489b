// Gated RFA.
//
//   S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ, o_t = S_tᵀ q_t / (z_t·q_t)
//   Peng et al., "Random Feature Attention" (2021), with the features of keys and queries made by the caller.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct GatedRfa {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
  };
  // k_t times 1 − α_t.
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    walk.key = weighted(walk.key, -expm1(walk.decay));
    return call.walked(walk);
  }
  static constexpr RecurrentLaw law{
      .name = "gated_rfa",
      .title = "Gated RFA",
      .transition = Transition::per_token,
      .normalizer = Normalizer::always,
      .parameters = parameters,
      .run = run,
      .formula = "S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ, o_t = S_tᵀ q_t / (z_t·q_t)",
      .citation = "Peng et al., Random Feature Attention (2021)",
  };
};

}  // namespace cogwheel
