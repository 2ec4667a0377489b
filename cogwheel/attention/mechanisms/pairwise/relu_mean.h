// ReLU attention, divided by the number of visible keys.
//
//   a_j = max(s_j, 0) / n
//   Wortsman et al., "Replacing softmax with ReLU in Vision Transformers" (2023), where n is the sequence length.
//
// The denominator does not depend on scores: g = 0 and N = n, a constant of the row. f′ = 0 at s = 0.
#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct ReluMean {
  static constexpr Description description{
      .name = "relu_mean",
      .title = "ReLU by count",
      .family = "pairwise",
      .level = "operator",
      .parameters = "",
      .formula = "max(s, 0) / n",
      .range = "weights at least 0, row sum the mean of the positive parts",
      .citation = "Wortsman et al., Replacing softmax with ReLU in Vision Transformers (2023)",
  };

  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    const V positive = lane::max(s, V(0));
    return {.weight = positive, .mass = V(0)};
  }

  template <class V>
  static constexpr V normalizer(V, Row<V> row) {
    return row.visible;
  }
};

}  // namespace cogwheel
