#include "cogwheel/research/labs/lecture/hopfield_network.h"

#include <bit>

namespace cogwheel::labs {

HopfieldNetwork::HopfieldNetwork(std::int64_t neurons, std::int64_t patterns, Draws draws)
    : neurons_(neurons), patterns_(patterns), words_((patterns + 63) / 64) {
  bits_.resize(static_cast<std::size_t>(neurons * words_));
  for (std::uint64_t& word : bits_) word = draws.bits();
  if (patterns % 64 != 0)
    for (std::int64_t neuron = 0; neuron < neurons; ++neuron)
      bits_[static_cast<std::size_t>((neuron + 1) * words_ - 1)] &= (std::uint64_t{1} << (patterns % 64)) - 1;
  weights_.resize(static_cast<std::size_t>(neurons * neurons));
  for (std::int64_t i = 0; i < neurons; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      const std::uint64_t* const left = &bits_[static_cast<std::size_t>(i * words_)];
      const std::uint64_t* const right = &bits_[static_cast<std::size_t>(j * words_)];
      int different = 0;
      for (std::int64_t word = 0; word < words_; ++word) different += std::popcount(left[word] ^ right[word]);
      weights_[static_cast<std::size_t>(i * neurons + j)] = weights_[static_cast<std::size_t>(j * neurons + i)] =
          static_cast<std::int16_t>(patterns - 2 * different);
    }
}

std::vector<std::int32_t> HopfieldNetwork::pattern(std::int64_t number) const {
  std::vector<std::int32_t> signs;
  for (std::int64_t neuron = 0; neuron < neurons_; ++neuron) signs.push_back(positive(number, neuron) ? 1 : -1);
  return signs;
}

std::vector<std::int32_t> HopfieldNetwork::fields(const std::vector<std::int32_t>& state) const {
  std::vector<std::int32_t> field(static_cast<std::size_t>(neurons_));
  for (std::int64_t j = 0; j < neurons_; ++j) {
    const std::int16_t* const row = &weights_[static_cast<std::size_t>(j * neurons_)];
    const std::int32_t sign = state[static_cast<std::size_t>(j)];
    for (std::int64_t i = 0; i < neurons_; ++i) field[static_cast<std::size_t>(i)] += sign * row[i];
  }
  return field;
}

std::vector<std::int32_t> HopfieldNetwork::settled(std::vector<std::int32_t> state) const {
  std::vector<std::int32_t> field = fields(state);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::int64_t j = 0; j < neurons_; ++j) {
      std::int32_t& sign = state[static_cast<std::size_t>(j)];
      if (field[static_cast<std::size_t>(j)] * sign >= 0) continue;
      changed = true;
      sign = -sign;
      const std::int16_t* const row = &weights_[static_cast<std::size_t>(j * neurons_)];
      const std::int32_t change = 2 * sign;
      for (std::int64_t i = 0; i < neurons_; ++i) field[static_cast<std::size_t>(i)] += change * row[i];
    }
  }
  return state;
}

}  // namespace cogwheel::labs
