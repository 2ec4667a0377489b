// cosFormer.
//
//   S_t = Σ_j cos(π (t - j) / (2 horizon)) φ(k_j) v_jᵀ, o_t = S_tᵀ φ(q_t) / (z_t·φ(q_t)), φ = ReLU
//   Qin et al., "cosFormer: Rethinking Softmax in Attention" (2022).
//
// The cosine of a difference is the product of two vectors of length 2, so keys and queries of width D become ones of
// width 2 D. The state turns with the text: it is that of the last token's position, and no position is stored. The
// paper has positions up to `horizon`; beyond it weights turn negative.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Cosformer {
  static constexpr RecurrentParameter parameters[]{
      {"horizon", "", Values::above_0},
  };
  static constexpr RecurrentLaw law{
      .name = "cosformer",
      .title = "cosFormer",
      .walks = Walks::phases,
      .features = Features::relu,
      .normalizer = Normalizer::always,
      .parameters = parameters,
      .formula =
          "o_t = Σ_j cos(π (t - j) / (2 horizon)) (φ(q_t)·φ(k_j)) v_j / Σ_j cos(π (t - j) / (2 horizon)) φ(q_t)·φ(k_j)",
      .citation = "Qin et al., cosFormer: Rethinking Softmax in Attention (2022)",
  };
};

}  // namespace cogwheel
