// DeltaNet.
//
//   S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ
//   Schlag, Irie, Schmidhuber, "Linear Transformers Are Secretly Fast Weight Programmers" (2021), and Yang et al.,
//   "Parallelizing Linear Transformers with the Delta Rule over Sequence Length" (2024), who divide keys and queries by
//   their lengths.
//
// What the state recalls for a key moves towards the value by the share β. Keys are taken as they come; of unit length,
// the state is multiplied by a matrix with the eigenvalue 1 - β along the key, in [-1, 1] for β in [0, 2]. Above 1 it
// is negative, which Grazzi et al., "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues" (2024), need
// for parity.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct DeltaNet {
  static constexpr RecurrentParameter parameters[]{{"beta", "BHN", Values::from_0_to_2}};
  // β up to 2 instead of 1, so that a state can change its sign.
  static constexpr LawOption options[]{{"negative_eigenvalues", "beta"}};
  static constexpr RecurrentLaw law{
      .name = "deltanet",
      .title = "DeltaNet",
      .walks = Walks::delta,
      .parameters = parameters,
      .formula = "S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}ᵀ k_t)ᵀ",
      .citation =
          "Schlag et al., Linear Transformers Are Secretly Fast Weight Programmers (2021); Yang et al., "
          "Parallelizing Linear Transformers with the Delta Rule over Sequence Length (2024)",
      .options = options,
  };
};

}  // namespace cogwheel
