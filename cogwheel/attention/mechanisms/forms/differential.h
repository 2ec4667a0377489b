// Differential attention: the difference of two maps over shared values, so that what both attend to cancels.
//
//   A = a(Q₁K₁ᵀ) − λ a(Q₂K₂ᵀ), with a = softmax in the paper
//   Ye et al., "Differential Transformer" (2024), eq. 1 and 2.
//
// A mixture: Σ_c coefficient_c · attend_c over shared values. It needs no kernel of its own, only twice the query and
// key heads: sub-head 2h + c of the queries reads sub-head 2⌊h/r⌋ + c of the keys and value head ⌊h/r⌋, where r query
// heads share a key head. ∂L/∂λ = −Σ do·o₂. Scalars of the map (a sigmoid's shift) are one for each sub-head, [2H].
//
// The layer makes λ from four vectors that its heads share, λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ_init, normalises
// each head's output and multiplies it by 1 − λ_init. Over a map whose rows sum to 1, the row sum is 1 − λ.
#pragma once
#include <cmath>

#include "cogwheel/attention/mechanisms/forms/form.h"

namespace cogwheel {

struct Differential {
  static constexpr Form form{
      .name = "differential",
      .title = "Differential",
      .parameters = "lam",
      .formula = "{}₁ - λ {}₂",
      .range = "weights in [-λ, 1], row sum 1 - λ",
      .range_of_map = "a₁ - λ a₂, each with {}",
      .citation = "Ye et al., Differential Transformer (2024)",
      .sub_heads = 2,
  };

  // λ_init of a layer, eq. 2 of the paper, where the first layer has depth 0. Notes and code that put the layer's
  // number, counted from 1, in the place of the depth start at 0.36 instead of 0.2.
  static double lambda_init(double depth) { return 0.8 - 0.6 * std::exp(-0.3 * depth); }
};

}  // namespace cogwheel
