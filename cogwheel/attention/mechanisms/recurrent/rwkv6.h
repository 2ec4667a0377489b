// RWKV-6.
//
//   o_t = S_{t-1}ᵀ q_t + (q_t·(u ∘ k_t)) v_t, then S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ
//   Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence" (2024), where log α_t is
//   -exp(w_t). A token reads before its own decay and write; u, the bonus, is its weight for itself.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct Rwkv6 {
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHND", Values::at_most_0},
      {"bonus", "HD"},
  };
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    walk.reads_before = true;
    LawOutcome outcome = call.walked(walk);
    const LawTensor bonus = for_each_token(call["bonus"]) * walk.key;  // u ∘ k
    outcome.output = outcome.output + sum(walk.scale * walk.query * bonus) * walk.value;
    return outcome;
  }
  static constexpr RecurrentLaw law{
      .name = "rwkv6",
      .title = "RWKV-6",
      .transition = Transition::per_channel,
      .parameters = parameters,
      .run = run,
      .formula = "S_t = α_t 1ᵀ ∘ S_{t-1} + k_t v_tᵀ, o_t = S_{t-1}ᵀ q_t + (q_t·(u ∘ k_t)) v_t",
      .citation = "Peng et al., Eagle and Finch (2024)",
  };
};

}  // namespace cogwheel
