// Cubic attention weights: sharper than linear ones, and signed without an extra factor sign(s).
//
//   a_j = s_j³ / Σ_k |s_k|³
//   Lv et al., "More Expressive Attention with Negative Weights" (2024), among its design principles: kurtosis enough,
//   set aside only because the gradient of an exponential is more convenient.
//
// Σ|a_j| = 1. No exponent: finite for |s| below 1e12 in fp32. N is at least 1e-30.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Cubic {
  static constexpr Description description{
      .name = "cubic",
      .title = "Cubic",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "s³ / Σ|s|³",
      .range = "weights in [-1, 1], Σ|a| = 1, row sum in [-1, 1]",
      .citation = "Lv et al., More Expressive Attention with Negative Weights (2024), design principles",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    const V cube = s * s * s;
    return {.weight = cube, .mass = lane::abs(cube)};
  }

  template <class V>
  static constexpr V normalizer(V mass, Row<V>) {
    return at_least(mass, 1e-30);
  }
};

}  // namespace cogwheel
