// Matrix-exponential attention: the exponential of the whole score matrix, not of its entries.
//
//   exp(A) = I + A + A²/2! + …,  A = scale · QKᵀ;  in a layer K = Q
//   allenlu2009, "Symmetric Transformer", notes (2024), which report that it does not train well.
//
// exp(A) = I + scale · Q φ(M) Kᵀ with M = scale · KᵀQ and φ(x) = (exp(x) − 1)/x: the identity has full rank, the rest
// at most D. Entries may be negative although QQᵀ is positive semidefinite, and nothing normalises a row:
// output grows like the exponential of the largest eigenvalue of M, which grows with N.
//
// Dense: by matrix products, as many keys as queries, no window, mask, bias or dropout. A causal row i is that of
// exp(A_≤i), the block of the tokens up to i; masking exp(A) afterwards leaks the future. That takes an
// exponential of a [2D, 2D] matrix for every row.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct MatrixExponential {
  static constexpr Description description{
      .name = "matrix_exponential",
      .title = "Matrix exponential",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula = "exp(A), A = QKᵀ/√D (of the matrix; a causal row: of the block of tokens up to its own)",
      .range = "unbounded, of full rank",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
