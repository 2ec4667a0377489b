// Rotary position embedding: the components of a query or key span head_dim/2 planes, each of which is rotated by an
// angle proportional to the position, so that q·k depends on positions only through their distance.
//
//   (a, b) at position n, in plane p  →  (a cos nω_p − b sin nω_p,  a sin nω_p + b cos nω_p),
//   ω_p = base^(−2p / head_dim)
//   Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), eq. 13 to 15 and 34.
//
// The gradient is the inverse rotation (ops/layers/rotary.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cogwheel/nn/options/rotary_options.h"

namespace cogwheel::nn {

// Where each component of a head in the layout `made` lies in the layout `given`: made i is given order[i].
std::vector<std::int64_t> component_order(RotaryLayout given, RotaryLayout made, std::int64_t head_dim);

// ω of each plane, float64 [head_dim / 2].
at::Tensor rotary_frequencies(const RotaryOptions& options);

class Rotary {
 public:
  // Throws UsageError for what `check` refuses.
  explicit Rotary(RotaryOptions options);

  // x [B, N, heads, head_dim] of floating point, token n at position `first` + n → the same shape, contiguous. Throws
  // UsageError where a position is outside that range.
  at::Tensor operator()(const at::Tensor& x, std::int64_t first = 0) const;
  // The same with token n of entry b at position positions[b, n], int64: [B, N], or [N] for all entries. On a device
  // other than the CPU positions are not checked here; a position outside the range gives NaN.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;
  // The same as turned from position n to n − distance, whatever n is: rotations compose.
  at::Tensor back(const at::Tensor& x, std::int64_t distance) const;

  RotaryLayout layout() const { return options_.layout; }

 private:
  at::Tensor turned(const at::Tensor& x, const std::optional<at::Tensor>& positions, std::int64_t first) const;
  at::Tensor table_for(const at::Tensor& x) const;
  at::Tensor exact_table() const;  // in float64, on the CPU

  RotaryOptions options_;
  // Cosines, then sines: [2, positions, head_dim/2]. The first table is float64, so that far positions lose no
  // precision; the others, rounded from it once or on other devices, are added when they are first needed.
  mutable std::vector<at::Tensor> tables_;
  mutable std::mutex mutex_;
};

}  // namespace cogwheel::nn
