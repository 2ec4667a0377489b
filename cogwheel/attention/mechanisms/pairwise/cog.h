// Cog attention: a softmax of |s| that keeps the sign of s.
//
//   a_j = sign(s_j) exp|s_j| / Σ_k exp|s_k|
//   Lv et al., "More Expressive Attention with Negative Weights" (2024), eq. 3.
//
// A query adds some values and subtracts others, so that the value projection need not learn to delete.
// Σ|a_j| = 1 unless a score is exactly 0; Σ a_j lies in [−1, 1].
//
// Derivatives. On either side of 0, f = ±exp(±s) gives f′ = exp|s|, and g = exp|s| gives g′ = sign(s) exp|s|.
// At exactly 0, f jumps from −1 to 1. There f = 0 and g = 1, as in the authors' release, g′ = 0, and f′ = 1: dual
// numbers, as autograd through sign(), would give 0, and a projection that starts at zero would never learn. So this
// map defines its derivatives.
//
// The exponent is |s|, not s: with the plain maximum of s subtracted, a score of −100 beside one of 1 overflows.
// Never mask this map by s = −∞: |−∞| is the largest possible exponent.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Cog : NormalizedByMass {
  static constexpr Description description{
      .name = "cog",
      .title = "Cog",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "sign(s) exp|s| / Σ exp|s|",
      .range = "weights in [-1, 1], Σ|a| = 1, row sum in [-1, 1]",
      .citation = "Lv et al., More Expressive Attention with Negative Weights (2024)",
  };
  static constexpr bool weights_are_exponentials = true;

  template <class V>
  static constexpr V energy(V s) {
    return lane::abs(s);
  }

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    const V mass = lane::exp_nonpositive(lane::abs(s) - row.shift);
    return {.weight = lane::times_sign(mass, s), .mass = mass};
  }

  template <class V>
  static constexpr Terms<V> derivatives(V s, Row<V> row) {
    const V mass = lane::exp_nonpositive(lane::abs(s) - row.shift);
    return {.weight = mass, .mass = lane::times_sign(mass, s)};
  }
};

}  // namespace cogwheel
