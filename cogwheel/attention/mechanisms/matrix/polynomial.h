// Polynomial attention: a polynomial of the whole score matrix, with learnable coefficients.
//
//   f(A) = Σ_p c_p Aᵖ,  A = scale · QKᵀ, p from 0;  in a layer K = Q
//   allenlu2009, "Symmetric Transformer", notes (2024): Aᵖ = scale · Q Mᵖ⁻¹ Kᵀ with M = scale · KᵀQ, [D, D], so
//   that every term but c₀ I has a rank of at most D and costs no N×N matrix.
//
// Dense: an entry of A² sums over every token between its two ends, so no row map can express it. It runs by matrix
// products, needs as many keys as queries, and has no window, mask, bias or dropout. Rows are not normalised.
//
// Causal. Masking f(A) afterwards leaks: A²_ij sums over tokens k > i too. Row i is therefore that of f of the leading
// block A_≤i, the scores among the tokens up to i: M_i = scale · Σ_{k ≤ i} k_k q_kᵀ in place of M. Those rows come from
// masked products, x₁ = q_i, x_{p+1} = Σ_{k ≤ i} scale (x_p·k_k) q_k, which need no [D, D] for each row.
#pragma once
#include <array>

#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct Polynomial {
  static constexpr Description description{
      .name = "polynomial",
      .title = "Polynomial of the scores' matrix",
      .family = "matrix",
      .level = "dense",
      .parameters = "coefficients",
      .formula = "Σ_p c_p Aᵖ, A = QKᵀ/√D (matrix powers; a causal row: of the block of tokens up to its own)",
      .range = "unbounded",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };

  // Where a layer that learns them starts: the first terms of exp(A) − I.
  static constexpr std::array<double, 4> parameter_initial{0.0, 1.0, 0.5, 1.0 / 6.0};
};

}  // namespace cogwheel
