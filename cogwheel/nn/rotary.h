// Rotary position embedding: every pair of a query's or key's components turns by an angle that grows with its
// position, so that q·k depends on the distance of the two positions alone.
//
//   (a, b) at position n, pair p of head_dim/2  →  (a cos nω_p − b sin nω_p,  a sin nω_p + b cos nω_p),
//   ω_p = base^(−2p / head_dim)
//   Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), eq. 13 to 15 and 34.
//
// The gradient is the rotation back (ops/layers/rotary.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

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

  // x [B, N, heads, head_dim] of floating point, token n at position `first` + n → the same shape, contiguous. Throws
  // UsageError where a position is not among those above.
  at::Tensor operator()(const at::Tensor& x, std::int64_t first = 0) const;
  // The same with token n of entry b at position positions[b, n], of int64: [B, N], or [N] for all entries. Of a device
  // that is not the CPU they are not read here; what an unknown position turns is NaN.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;

 private:
  at::Tensor turned(const at::Tensor& x, const std::optional<at::Tensor>& positions, std::int64_t first) const;
  at::Tensor table_for(const at::Tensor& x) const;
  at::Tensor exact_table() const;  // in float64, on the CPU

  std::int64_t head_dim_, positions_;
  double base_;
  RotaryPairs pairs_;
  // Cosines, then sines: [2, positions, head_dim/2]. The first in float64, so that far positions lose nothing; then, as
  // they are asked for, those rounded from it once and those on other devices.
  mutable std::vector<at::Tensor> tables_;
  mutable std::mutex mutex_;
};

}  // namespace cogwheel
