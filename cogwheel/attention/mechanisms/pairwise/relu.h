// ReLU attention, normalised by its sum.
//
//   a_j = max(s_j, 0) / Σ_k max(s_k, 0)
//   The positive part as in Shen et al., "A Study on ReLU and Softmax in Transformer" (2023).
//
// Weights lie in [0, 1] and sum to 1, or are all 0 where no score is positive: N is at least 1e-30. f′ = g′ = 0
// at s = 0. No exponent: finite for |s| up to the largest number over the number of keys.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Relu {
  static constexpr Description description{
      .name = "relu",
      .title = "ReLU",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "max(s, 0) / Σ max(s, 0)",
      .range = "weights in [0, 1], row sum 1, or 0 where no score is positive",
      .citation = "Shen et al., A Study on ReLU and Softmax in Transformer (2023)",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    const V positive = lane::max(s, V(0));
    return {.weight = positive, .mass = positive};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return at_least(mass, 1e-30);
  }
};

}  // namespace cogwheel
