// Squared ReLU attention, divided by the number of visible keys.
//
//   a_j = max(s_j, 0)² / n
//   Hua et al., "Transformer Quality in Linear Time" (2022), whose n is the sequence length.
//
// g = 0, N = n. No exponent: finite for |s| up to 1e19 in fp32.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

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
    const V positive = lane::max(s, V(0));
    return {.weight = positive * positive, .mass = V(0)};
  }

  template <class V>
  static constexpr V normalizer(V, Row<V> row) {
    return row.visible;
  }
};

}  // namespace cogwheel
