// HGRN2.
//
//   S_t = α_t 1ᵀ ∘ S_{t-1} + (1 - α_t) v_tᵀ
//   Qin et al., "HGRN2: Gated Linear RNNs with State Expansion" (2024).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct Hgrn2 {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHND", Values::at_most_0},
  };
  // k_t = 1 − α_t.
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    walk.key = -expm1(walk.decay);
    return call.walked(walk);
  }
  static constexpr RecurrentLaw law{
      .name = "hgrn2",
      .title = "HGRN2",
      .transition = Transition::per_channel,
      .parameters = parameters,
      .has_key = false,
      .run = run,
      .formula = "S_t = α_t 1ᵀ ∘ S_{t-1} + (1 - α_t) v_tᵀ",
      .citation = "Qin et al., HGRN2: Gated Linear RNNs with State Expansion (2024)",
  };
};

}  // namespace cogwheel
