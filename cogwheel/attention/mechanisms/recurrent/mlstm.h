// mLSTM.
//
//   S_t = σ(f_t) S_{t-1} + exp(i_t) k_t v_tᵀ, o_t = S_tᵀ q_t / max(1, |z_t·q_t|)
//   Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), with the sigmoid as its forget gate.
//
// exp(i) grows without bound, so S and z are kept as S exp(-m) and z exp(-m), with m the paper's running maximum of the
// exponents, m_t = max(log σ(f_t) + m_{t-1}, i_t), here never below 0: under 1 the denominator is 1 anyway. m is the
// third tensor of the state, and a constant where gradients are concerned, for no output depends on it.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct Mlstm {
  static constexpr RecurrentParameter parameters[]{
      {"input_gate", "BHN", Values::number},
      {"forget_gate", "BHN", Values::number},
  };
  static constexpr StatePart state[]{{"S", "DV"}, {"z", "D"}, {"m", ""}};
  static LawOutcome run(const LawCall& call) {
    const ExponentialWeights weights = call.exponential_weights(call["input_gate"], call["forget_gate"], call.state(2));
    LawWalk walk = call.walk();
    walk.key = weighted(walk.key, weights.weight);
    walk.transition = Transition::per_token;
    walk.decay = weights.log_decay;
    walk.normalized = true;
    walk.initial_total = call.state(1);
    walk.least = weights.least;
    LawOutcome outcome = call.walked(walk);
    outcome.state.push_back(weights.last);
    return outcome;
  }
  static constexpr RecurrentLaw law{
      .name = "mlstm",
      .title = "mLSTM",
      .parameters = parameters,
      .run = run,
      .state = state,
      .formula = "S_t = σ(f_t) S_{t-1} + exp(i_t) k_t v_tᵀ, o_t = S_tᵀ q_t / max(1, |z_t·q_t|)",
      .citation = "Beck et al., xLSTM: Extended Long Short-Term Memory (2024)",
  };
};

}  // namespace cogwheel
