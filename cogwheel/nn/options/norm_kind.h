// Which norm, and its ε.
#pragma once

namespace cogwheel::nn {

enum class NormKind {
  layer,  // (x − mean) / √(variance + 1e-5), with weights, and biases if asked (torch::nn::LayerNorm: both or neither)
  rms,  // x / √(mean(x²) + 1e-6), with weights only; Zhang and Sennrich, "Root Mean Square Layer Normalization"
        // (2019), eq. 4
};

// The ε under the root of each.
constexpr double default_epsilon(NormKind kind) { return kind == NormKind::layer ? 1e-5 : 1e-6; }

// Of the norm of heads of a difference of two maps; Ye et al., "Differential Transformer" (2024), their code.
inline constexpr double default_head_norm_epsilon = 1e-5;

}  // namespace cogwheel::nn
