// A network of Hopfield's over random patterns of ±1, which are kept as bits. All numbers are whole, so results are
// the same on every machine.
#pragma once
#include <cstdint>
#include <vector>

#include "cogwheel/research/labs/draws.h"

namespace cogwheel::labs {

class HopfieldNetwork {
 public:
  // Stores `patterns` random patterns of `neurons` signs: d·W = Σ_μ ξ^μ ξ^μᵀ, with W_ii = 0.
  HopfieldNetwork(std::int64_t neurons, std::int64_t patterns, Draws draws);

  // ξ^μ.
  std::vector<std::int32_t> pattern(std::int64_t number) const;
  // d·W·state, whose signs are the next state.
  std::vector<std::int32_t> fields(const std::vector<std::int32_t>& state) const;
  // Sets one neuron after the other to the sign of its field, in order and again, until none changes; a field of 0
  // changes nothing. Each change lowers the energy −½ Σ s_i W_ij s_j, so it ends.
  std::vector<std::int32_t> settled(std::vector<std::int32_t> state) const;

 private:
  bool positive(std::int64_t pattern, std::int64_t neuron) const {
    return (bits_[static_cast<std::size_t>(neuron * words_ + pattern / 64)] >> (pattern % 64) & 1) != 0;
  }

  std::int64_t neurons_, patterns_, words_;
  std::vector<std::uint64_t> bits_;    // [neurons, words]: a bit for each pattern
  std::vector<std::int16_t> weights_;  // d·W
};

}  // namespace cogwheel::labs
