// Simple norm, read by the matrix: one plus the score over the squared Frobenius norm of all scores.
//
//   a_ij = (1 + s_ij / ‖A‖²) / n_i,  A = scale · QKᵀ, n_i the keys that query i sees
//   allenlu2009, "Symmetric Transformer", notes (2024), 1 + QQᵀ/|QQᵀ|², which report that it does not work.
//   The division by n is ours, as in simple_norm_by_row.h.
//
// It leaks the future: ‖A‖ sums over every query and key, so a causal row changes when a later token does. It is here
// to reproduce a failure; a language model trained with it has seen what it should predict. In effect it is the mean of
// the values: s/‖A‖² shrinks like 1/(N²|s|).
//
// Where all scores are 0, rows are 1/n, with no gradient to the scores. Dense, as simple_norm_by_row.h.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct SimpleNormByMatrix {
  static constexpr Description description{
      .name = "simple_norm_by_matrix",
      .title = "Simple norm by matrix",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula = "(1 + s / ‖A‖²) / n, A = QKᵀ/√D with all of its rows",
      .range = "unbounded where all scores are small; leaks the future: a causal row depends on later tokens",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
