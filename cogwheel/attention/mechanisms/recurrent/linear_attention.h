// Linear attention.
//
//   S_t = S_{t-1} + φ(k_t) v_tᵀ, o_t = S_tᵀ φ(q_t)
//   Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention" (2020), where
//   φ = elu + 1 and the output is normalised; without either, fast weights (Schmidhuber, 1992).
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct LinearAttention {
  static constexpr RecurrentParameter parameters[]{
      {"projection", "HDR", Values::any, false},
  };
  static constexpr RecurrentLaw law{
      .name = "linear_attention",
      .title = "Linear attention",
      .features = Features::asked,
      .normalizer = Normalizer::asked,
      .parameters = parameters,
      .formula = "S_t = S_{t-1} + φ(k_t) v_tᵀ, o_t = S_tᵀ φ(q_t)",
      .citation = "Katharopoulos et al., Transformers are RNNs (2020)",
  };
};

}  // namespace cogwheel
