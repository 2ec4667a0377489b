// Rotary position embedding: the components of a query or key span head_dim/2 planes, each of which is rotated by an
// angle proportional to the position, so that q·k depends on positions only through their distance.
//
//   (a, b) at position n, in plane p  →  (a cos nω_p − b sin nω_p,  a sin nω_p + b cos nω_p),
//   ω_p = base^(−2p / head_dim)
//   Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), eq. 13 to 15 and 34.
//
// The gradient is the inverse rotation (ops/layers/rotary.h). A model that learned short texts reads longer ones where
// its ω are scaled, by one of two rules:
//
//   linear   ω / factor: positions lie `factor` times as close. Chen et al., "Extending Context Window of Large
//   Language
//            Models via Position Interpolation" (2023), eq. 4
//   llama3   by the number of turns r = original_context · ω / 2π that a plane makes in a text that was learned: ω
//   where
//            r ≥ high_frequency, ω / factor where r ≤ low_frequency, and between them (1 − t) ω / factor + t ω with
//            t = (r − low_frequency) / (high_frequency − low_frequency). Of the published code of Llama 3.1;
//            Grattafiori et al., "The Llama 3 Herd of Models" (2024), section 3.4.2
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cogwheel::nn {

// Which two components span a plane. A permutation of the rows of the query and key projections maps one to the other.
enum class RotaryLayout {
  interleaved,  // 2p and 2p + 1: the paper's, and that of Llama's original code
  halves,       // p and p + head_dim/2: Hugging Face's models and GPT-NeoX
};

struct RotaryScaling {
  std::string rule = "none";  // or "linear", "llama3"
  double factor = 8;
  double low_frequency = 1, high_frequency = 4;  // of llama3, in turns
  std::int64_t original_context = 8192;          // of llama3, in tokens

  bool operator==(const RotaryScaling&) const = default;
};
const std::vector<std::string>& rotary_scaling_names();

struct RotaryOptions {
  std::int64_t head_dim = 0, positions = 0;  // positions 0 … positions − 1
  RotaryLayout layout = RotaryLayout::interleaved;
  double base = 10000;
  RotaryScaling scaling = {};
};

// Throws UsageError that names the first invalid option, after `prefix`: unless head_dim is even, base above 1, the
// rule known, factor at least 1, and low_frequency below high_frequency.
void check(const RotaryOptions& options, const std::string& prefix = "rotary: ");

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
