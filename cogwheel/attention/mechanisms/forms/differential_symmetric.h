// Differential attention with tied keys: K = Q within each of the two sub-heads.
//
//   A = a(Q₁Q₁ᵀ) − λ a(Q₂Q₂ᵀ), with a = softmax in the notes
//   allenlu2009, "Symmetric Transformer", notes (2024), which find that the difference makes up for the loss from
//   tying.
//
// A layer: that of differential.h (λ from four vectors, a norm per head, 1 − λ_init), whose projection makes Q₁, Q₂ and
// V alone. It saves the width² weights of the keys, and their biases.
#pragma once
#include "cogwheel/attention/mechanisms/forms/form.h"

namespace cogwheel {

struct DifferentialSymmetric {
  static constexpr Form form{
      .name = "differential_symmetric",
      .title = "Differential symmetric",
      .is_layer = true,
      .parameters = "lam",
      .formula = "{}₁ - λ {}₂ with K = Q",
      .range = "weights in [-λ, 1], row sum 1 - λ",
      .range_of_map = "a₁ - λ a₂, each with {}",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
      .sub_heads = 2,
      .ties_keys = true,
      .untied = "differential",
  };
};

}  // namespace cogwheel
