// Matrix-exponential attention, each row divided by its length.
//
//   a_ij = exp(A)_ij / (Σ_k exp(A)²_ik)^½,  A = scale · QKᵀ, the exponential of the matrix; in a layer K = Q
//   allenlu2009, "Symmetric Transformer", notes (2024), "l2 norm", which report that it does not work.
//
// A row of equal weights is 1/√n each, not 1/n: the mean of independent values keeps its length. A row of zeros stays
// zero. Otherwise as in matrix_exponential.h, except that the whole [N, N] matrix is computed.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct MatrixExponentialL2 {
  static constexpr Description description{
      .name = "matrix_exponential_l2",
      .title = "Matrix exponential, l2",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula =
          "exp(A) / ‖exp(A)‖₂ by row, A = QKᵀ/√D (of the matrix; a causal row: of the block of tokens up to its own)",
      .range = "squares sum to 1",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
