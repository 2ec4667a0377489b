// Symmetric attention: the keys are the queries, A = a(QQᵀ), with a = softmax in the notes.
//
// A layer, not an operator: it has no key projection, which saves width² weights, and the scores before the mask are
// symmetric. Described as symmetric attention in allenlu2009, "Symmetric Transformer", notes (2024); related to the
// shared query-key projections of Kitaev et al., "Reformer" (2020), section 2.
//
// The score of a query with itself is |q|² ≥ 0, the largest possible for its length: the diagonal is strong.
// With K = Q the gradient of Q is the sum dQ + dK.
#pragma once
#include "cogwheel/attention/mechanisms/forms/form.h"

namespace cogwheel {

struct Symmetric {
  static constexpr Form form{
      .name = "symmetric",
      .title = "Symmetric",
      .is_layer = true,
      .parameters = "",
      .formula = "{} with K = Q",
      .range = "weights in [0, 1], row sum 1",
      .range_of_map = "{}",
      .citation = "Kitaev et al., Reformer (2020), section 2 (shared query-key projection)",
      .ties_keys = true,
  };
};

}  // namespace cogwheel
