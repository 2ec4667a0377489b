// Gated keys.
//
//   S_t = α_t S_{t-1} + σ(g_t) k_t v_tᵀ, o_t = scale · S_tᵀ q_t
//   A test's own; with 1 - α_t in the place of the gate it is Peng et al., "Random Feature Attention" (2021).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct GatedKeys {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
      {"gate", "BHN", Values::number},
  };
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    walk.key = weighted(walk.key, sigmoid(call["gate"]));
    return call.walked(walk);
  }
  static constexpr RecurrentLaw law{
      .name = "gated_keys",
      .title = "Gated keys",
      .transition = Transition::per_token,
      .parameters = parameters,
      .run = run,
      .formula = "S_t = α_t S_{t-1} + σ(g_t) k_t v_tᵀ",
      .citation = "Peng et al., Random Feature Attention (2021)",
  };
};

}  // namespace cogwheel
