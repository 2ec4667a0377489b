// Matrix-exponential attention without the identity: exp(A) − I, the part of low rank.
//
//   exp(A) − I = scale · Q φ(M) Kᵀ,  M = scale · KᵀQ,  φ(x) = (exp(x) − 1)/x;  in a layer K = Q
//   allenlu2009, "Symmetric Transformer", notes (2024): a function f(A) has the rank of A, at most D,
//   once f(0) I is subtracted.
//
// A token's own value contributes only through its score with itself. Otherwise as in matrix_exponential.h.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct MatrixExponentialMinusIdentity {
  static constexpr Description description{
      .name = "matrix_exponential_minus_identity",
      .title = "Matrix exponential minus identity",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula = "exp(A) - I, A = QKᵀ/√D (of the matrix; a causal row: of the block of tokens up to its own)",
      .range = "unbounded, of rank at most D",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
