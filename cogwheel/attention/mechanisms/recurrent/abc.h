// ABC.
//
//   K_t = K_{t-1} + k_t φ_tᵀ, V_t = V_{t-1} + φ_t v_tᵀ, o_t = V_tᵀ softmax(K_tᵀ q_t)
//   Peng et al., "ABC: Attention with Bounded-Memory Control" (2022). What decides about φ_t is the caller's.
//   With a decay α_t of the slots, K_t = K_{t-1} diag(α_t) + k_t φ_tᵀ and V_t alike, and φ_t = 1 - α_t: Zhang et al.,
//   "Gated Slot Attention for Efficient Linear-Time Sequence Modeling" (2024).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct Abc {
  static constexpr RecurrentParameter parameters[]{
      {"phi", "BHNS"},
      {"log_decay", "BHNS", Values::at_most_0, false},
  };
  static constexpr StatePart state[]{{"K", "DS"}, {"V", "SV"}};
  static LawOutcome run(const LawCall& call) {
    const LawTensor phi = call["phi"], decay = call["log_decay"];
    const LawOutcome keys = call.walked(LawWalk{.query = call.query,
                                                .key = call.key,
                                                .value = phi,
                                                .column_decay = decay,
                                                .initial_state = call.state(0),
                                                .scale = call.scale});
    const LawOutcome values = call.walked(LawWalk{.query = softmax(keys.output),
                                                  .key = phi,
                                                  .value = call.value,
                                                  .transition = decay ? Transition::per_channel : Transition::none,
                                                  .decay = decay,
                                                  .initial_state = call.state(1)});
    return {values.output, {keys.state[0], values.state[0]}};
  }
  static constexpr RecurrentLaw law{
      .name = "abc",
      .title = "ABC",
      .parameters = parameters,
      .run = run,
      .state = state,
      .formula = "K_t = K_{t-1} + k_t φ_tᵀ, V_t = V_{t-1} + φ_t v_tᵀ, o_t = V_tᵀ softmax(K_tᵀ q_t)",
      .citation = "Peng et al., ABC: Attention with Bounded-Memory Control (2022)",
  };
};

}  // namespace cogwheel
