// Simple norm, read by rows: one plus the score over the squared length of its row of scores.
//
//   a_ij = (1 + s_ij / Σ_k s_ik²) / n_i,  k over the n_i keys that query i sees
//   allenlu2009, "Symmetric Transformer", notes (2024), 1 + QQᵀ/|QQᵀ|², which report that it does not work.
//   They leave open what |QQᵀ| measures; here a row, in simple_norm_by_matrix.h the matrix. The division by n is ours:
//   without it the output would sum, not average, the values.
//
// Nearly the mean of the values: s/Σs² is about 1/(n|s|), so that a long row forgets its scores. A row whose scores are
// all 0 is 1/n, with no gradient to the scores. Causal rows see only what they may.
//
// Dense: by matrix products, without window, mask, bias or dropout.
#pragma once
#include "cogwheel/attention/mechanisms/description.h"

namespace cogwheel {

struct SimpleNormByRow {
  static constexpr Description description{
      .name = "simple_norm_by_row",
      .title = "Simple norm by row",
      .family = "matrix",
      .level = "dense",
      .parameters = "",
      .formula = "(1 + s / Σ s²) / n",
      .range = "unbounded where all scores are small",
      .citation = "allenlu2009, Symmetric Transformer, notes (2024)",
  };
};

}  // namespace cogwheel
