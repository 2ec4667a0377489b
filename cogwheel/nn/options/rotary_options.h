// How rotary positions turn queries and keys (rotary.h). A model that learned short texts reads longer ones where its
// frequencies ω are scaled, by one of two rules:
//
//   linear   ω / factor: positions lie `factor` times as close. Chen et al., "Extending Context Window of Large
//            Language Models via Position Interpolation" (2023), eq. 4
//   llama3   by the number of turns r = original_context · ω / 2π that a plane makes in a text that was learned:
//            ω where r ≥ high_frequency, ω / factor where r ≤ low_frequency, and between them
//            (1 − t) ω / factor + t ω with t = (r − low_frequency) / (high_frequency − low_frequency). Of the published
//            code of Llama 3.1; Grattafiori et al., "The Llama 3 Herd of Models" (2024), section 3.4.2
#pragma once
#include <cstdint>
#include <string>

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

struct RotaryOptions {
  std::int64_t head_dim = 0, positions = 0;  // positions 0 … positions − 1
  RotaryLayout layout = RotaryLayout::interleaved;
  double base = 10000;
  RotaryScaling scaling = {};
};

// Throws UsageError that names the first invalid option, after `prefix`: unless head_dim is even, base above 1, the
// rule known, factor at least 1, and low_frequency below high_frequency.
void check(const RotaryOptions& options, const std::string& prefix = "rotary: ");

}  // namespace cogwheel::nn
