// Symmetric attention: softmax with the keys tied to the queries, A = softmax(QQᵀ).
//
// A layer, not an operator: it has no key projection, which saves width² weights, and the scores before the mask are
// symmetric. Described as symmetric attention in notes on the differential transformer; related to the shared
// query-key projections of Kitaev et al., "Reformer" (2020), section 2.
#pragma once
#include "cogwheel/mechanisms/description.h"
#include "cogwheel/mechanisms/softmax.h"

namespace cogwheel {

struct Symmetric {
  static constexpr Description description{
      .name = "symmetric",
      .title = "Symmetric",
      .family = "pairwise",
      .level = "layer",
      .parameters = "",
      .formula = "softmax with K = Q",
      .range = "weights in [0, 1], row sum 1",
      .citation = "Kitaev et al., Reformer (2020), section 2 (shared query-key projection)",
  };

  using Map = Softmax;
};

}  // namespace cogwheel
