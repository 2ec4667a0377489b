// Rotary position embedding: every pair of a query's or key's components turns by an angle that grows with its
// position, so that q·k depends on the distance of the two positions alone.
//
//   (a, b) at position n, pair p of head_dim/2  →  (a cos nω_p − b sin nω_p,  a sin nω_p + b cos nω_p),
//   ω_p = base^(−2p / head_dim)
//   Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), eq. 13 to 15 and 34.
//
// The gradient is the rotation back.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel {

// Which components are a pair. A permutation of the rows of the query and key projections maps one to the other.
enum class RotaryPairs {
  interleaved,  // 2p and 2p + 1: the paper's, and Llama's own code
  halves,       // p and p + head_dim/2: Hugging Face's models and GPT-NeoX
};

class Rotary {
 public:
  // Positions 0 … positions − 1. Throws UsageError where head_dim is odd or base is not above 1.
  Rotary(std::int64_t head_dim, std::int64_t positions, RotaryPairs pairs, double base = 10000);

  // x [B, N, heads, head_dim], float32 or float64, token n at position `first` + n → the same shape, contiguous.
  at::Tensor operator()(const at::Tensor& x, std::int64_t first = 0) const;
  // The same with token n of entry b at positions[b, n], [B, N] int64.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;

 private:
  std::int64_t head_dim_, positions_;
  RotaryPairs pairs_;
  // Angles in float64, so that far positions lose nothing, then rounded once.
  at::Tensor single_, double_;  // cosines, then sines: [2, positions, head_dim/2]
};

}  // namespace cogwheel
