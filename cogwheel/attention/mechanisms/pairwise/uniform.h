// Uniform attention: the mean of the visible values, whatever the scores.
//
//   a_j = 1 / n
//   The part that centred attention subtracts: Ali et al., "Centered Self-Attention Layers" (2023).
//
// f = g = 1, so no gradient reaches queries and keys, and forms over it add nothing (form.h).
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct Uniform : NormalizedByMass {
  static constexpr Description description{
      .name = "uniform",
      .title = "Uniform",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "1 / n",
      .range = "weights 1/n, row sum 1",
      .citation = "Ali et al., Centered Self-Attention Layers (2023)",
  };

  static constexpr bool reads_scores = false;

  template <class V>
  static constexpr Terms<V> terms(V, Row<V>) {
    return {.weight = V(1), .mass = V(1)};
  }
};

}  // namespace cogwheel
