// Norm attention: one plus the cosine of query and key, so that opposite directions have weight 0.
//
//   a_j = (1 + cos(q, k_j)) / Σ_k (1 + cos(q, k_k))
//   allenlu2009, "Symmetric Transformer", notes (2024), with the row normalised over the keys that it sees.
//
// The score of this map is the cosine: the operator divides queries and keys by their lengths and uses no scale.
// Weights lie in [0, 1] and sum to 1. N is at least 1e-6: 0 only where every key is opposite.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Norm {
  static constexpr Description description{
      .name = "norm",
      .title = "Norm",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "(1 + cos) / Σ (1 + cos)",
      .range = "weights in [0, 1], row sum 1",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
      .score = "cosine",
  };

  template <class V>
  static constexpr Terms<V> terms(V cosine, Row<V>) {
    const V term = V(1) + cosine;
    return {.weight = term, .mass = term};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return at_least(mass, 1e-6);
  }
};

}  // namespace cogwheel
