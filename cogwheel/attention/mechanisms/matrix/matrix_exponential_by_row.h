// Matrix-exponential attention, each row divided by the sum of its absolute values.
//
//   a_ij = exp(A)_ij / Σ_k |exp(A)_ik|,  A = scale · QKᵀ, the exponential of the matrix; in a layer K = Q
//   allenlu2009, "Symmetric Transformer", notes (2024), "row-based norm", which report that it does not work.
//   Absolute values, because entries may be negative and their sum may vanish; where none is negative, this is the sum.
//
// Rows no longer grow with N, yet a row depends on its scores only through the whole matrix. A row of zeros stays zero,
// and the derivative of |0| is 0. Otherwise as in matrix_exponential.h, except that the whole [N, N] matrix is
// computed.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct MatrixExponentialByRow {
  static constexpr Description description{
      .name = "matrix_exponential_by_row",
      .title = "Matrix exponential by row",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula =
          "exp(A) / Σ|exp(A)| by row, A = QKᵀ/√D (of the matrix; a causal row: of the block of tokens up to its own)",
      .range = "absolute values sum to 1",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
