// mLSTM.
//
//   S_t = σ(f_t) S_{t-1} + exp(i_t) k_t v_tᵀ, o_t = S_tᵀ q_t / max(1, |z_t·q_t|)
//   Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), with the sigmoid as its forget gate.
//
// exp(i) grows without bound, so S and z are kept as S exp(-m) and z exp(-m), with m the paper's running maximum of the
// exponents, m_t = max(log σ(f_t) + m_{t-1}, i_t), here never below 0: under 1 the denominator is 1 anyway. m is the
// third tensor of the state, and a constant where gradients are concerned, for no output depends on it.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Mlstm {
  static constexpr RecurrentParameter parameters[]{
      {"input_gate", "BHN", Values::number},
      {"forget_gate", "BHN", Values::number},
  };
  static constexpr RecurrentLaw law{
      .name = "mlstm",
      .title = "mLSTM",
      .transition = Transition::per_token,
      .write = Write::key_by_input_gate,
      .normalizer = Normalizer::at_least_one,
      .parameters = parameters,
      .formula = "S_t = σ(f_t) S_{t-1} + exp(i_t) k_t v_tᵀ, o_t = S_tᵀ q_t / max(1, |z_t·q_t|)",
      .citation = "Beck et al., xLSTM: Extended Long Short-Term Memory (2024)",
  };
};

}  // namespace cogwheel
