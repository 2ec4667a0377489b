// Linear attention weights: the score itself, over the sum of magnitudes.
//
//   a_j = s_j / Σ_k |s_k|
//   Lv et al., "More Expressive Attention with Negative Weights" (2024), among its design principles, where it is the
//   ablation that drops the exponential: too flat a pattern, which hinders convergence.
//
// Σ|a_j| = 1. At s = 0, g′ = 0. No exponent: finite for |s| up to the largest number over the number of keys. N is at
// least 1e-30, so that a row of exact zeros gives 0.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct LinearAbs {
  static constexpr Description description{
      .name = "linear_abs",
      .title = "Linear",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "s / Σ|s|",
      .range = "weights in [-1, 1], Σ|a| = 1, row sum in [-1, 1]",
      .citation = "Lv et al., More Expressive Attention with Negative Weights (2024), design principles",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    return {.weight = s, .mass = lane::abs(s)};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return at_least(mass, 1e-30);
  }
};

}  // namespace cogwheel
