// Centred attention: weights minus the uniform weight 1/n, so that a row may subtract values.
//
//   A = a(QKᵀ) − 1/n over the n visible keys, with a = softmax in the paper
//   Ali et al., "Centered Self-Attention Layers" (2023); the causal form subtracts 1/i in row i.
//
// A mixture of two row maps over the same queries, keys and values. How much is subtracted depends on the length of the
// row, not on its content. Over a map whose rows sum to 1, rows sum to 0; over any other, to that sum minus 1. As 1/n
// does not depend on scores, ∂L/∂s is that of the map.
#pragma once
#include "cogwheel/attention/mechanisms/forms/form.h"

namespace cogwheel {

struct Centered {
  static constexpr Form form{
      .name = "centered",
      .title = "Centred",
      .parameters = "",
      .formula = "{} - 1/n",
      .range = "weights in [-1/n, 1 - 1/n], row sum 0",
      .range_of_map = "1/n less than {}",
      .citation = "Ali et al., Centered Self-Attention Layers (2023)",
      .subtracted = "uniform",
  };
};

}  // namespace cogwheel
