// Differential attention: the difference of two softmax maps over one value, so that what both attend to cancels.
//
//   A = softmax(Q₁K₁ᵀ) − λ softmax(Q₂K₂ᵀ)
//   Ye et al., "Differential Transformer" (2024), eq. 1 and 2.
//
// A mixture: Σ_c coefficient_c · attend_c over shared values. It needs no kernel of its own, only twice the query and
// key heads: sub-head 2h + c of the queries reads sub-head 2⌊h/r⌋ + c of the keys and value head ⌊h/r⌋, where r query
// heads share a key head. ∂L/∂λ = −Σ do·o₂.
//
// The layer makes λ from four vectors that its heads share, λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ_init, normalises
// each head's output and multiplies it by 1 − λ_init. The row sum is 1 − λ.
#pragma once
#include <cmath>

#include "cogwheel/mechanisms/description.h"
#include "cogwheel/mechanisms/softmax.h"

namespace cogwheel {

struct Differential {
  static constexpr Description description{
      .name = "differential",
      .title = "Differential",
      .family = "pairwise",
      .level = "operator",
      .parameters = "lam",
      .formula = "softmax₁ - λ softmax₂",
      .range = "weights in [-λ, 1], row sum 1 - λ",
      .citation = "Ye et al., Differential Transformer (2024)",
  };

  using Member = Softmax;
  static constexpr int sub_heads = 2;

  // λ_init of a layer, eq. 2 of the paper, with `depth` counted from 0. (S4's table counts from 1; add 1 for it.)
  static double lambda_init(int depth) { return 0.8 - 0.6 * std::exp(-0.3 * depth); }
};

}  // namespace cogwheel
