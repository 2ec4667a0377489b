// Soft squares: bounded weights that count a score whatever its sign.
//
//   a_j = w_j / Σ_k w_k, w = s² / (1 + s²)
//   A test's own; sums of magnitudes as in Lv et al., "More Expressive Attention with Negative Weights" (2024).
//
// N is at least 1e-30, so that a row of exact zeros gives 0.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct SoftSquare {
  static constexpr Description description{
      .name = "soft_square",
      .title = "Soft square",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "w / Σw, w = s² / (1 + s²)",
      .range = "weights in [0, 1], row sum 1",
      .citation = "Lv et al., More Expressive Attention with Negative Weights (2024)",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    const V weight = s * s / (V(1) + s * s);
    return {.weight = weight, .mass = weight};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return at_least(mass, 1e-30);
  }
};

}  // namespace cogwheel
