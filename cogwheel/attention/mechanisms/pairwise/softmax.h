// Softmax: the mechanism that all others are compared with.
//
//   a_j = exp(s_j) / Σ_k exp(s_k)
//   Vaswani et al., "Attention Is All You Need" (2017), eq. 1; Bahdanau et al. (2014), eq. 6.
//
// Weights lie in [0, 1] and sum to 1. f = g = exp(s), exponent s.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Softmax : NormalizedByMass {
  static constexpr Description description{
      .name = "softmax",
      .title = "Softmax",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "exp(s) / Σ exp(s)",
      .range = "weights in [0, 1], row sum 1",
      .citation = "Vaswani et al., Attention Is All You Need (2017)",
  };
  static constexpr bool weights_are_exponentials = true;

  template <class V>
  static constexpr V energy(V s) {
    return s;
  }

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    const V mass = lane::exp_nonpositive(s - row.shift);
    return {.weight = mass, .mass = mass};
  }
};

}  // namespace cogwheel
