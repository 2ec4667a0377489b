// Squared ReLU attention, divided by the number of visible keys.
//
//   a_j = max(s_j, 0)² / n
//   Hua et al., "Transformer Quality in Linear Time" (2022), whose n is the sequence length.
//
// Slopes: f′ = 2 max(s, 0); g = 0, N = n. No energy: finite for |s| up to 1e19 in fp32.
#pragma once
#include "cogwheel/mechanisms/contract.h"
#include "cogwheel/mechanisms/description.h"
#include "cogwheel/mechanisms/lane.h"

namespace cogwheel {

struct SquaredRelu {
  static constexpr Description description{
      .name = "squared_relu",
      .title = "Squared ReLU",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "max(s, 0)² / n",
      .range = "weights at least 0, row sum the mean of the squared positive parts",
      .citation = "Hua et al., Transformer Quality in Linear Time (2022)",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    const V positive = lane::select(s < V(0), V(0), s);  // a NaN stays
    return {.weight = positive * positive, .mass = V(0)};
  }

  template <class V>
  static constexpr Terms<V> slopes(V s, Row<V>) {
    const V slope = lane::select(s > V(0), V(2) * s, V(0));
    return {.weight = slope, .mass = V(0)};
  }

  template <class V>
  static constexpr Normalizer<V> normalizer(V, Row<V> row) {
    return {row.visible, V(0)};
  }
};

}  // namespace cogwheel
