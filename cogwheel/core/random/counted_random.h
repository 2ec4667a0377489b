// Random numbers as functions of what they are drawn for, such as seed, step and row: the same on every machine, in any
// order, without state.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cogwheel/core/random/permuted_place.h"

namespace cogwheel {

// SplitMix64 (Steele, Lea and Flood 2014): a bijection on 64 bits whose outputs pass tests of randomness, used on a
// counter.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// In [0, bound). The upper half of a 128-bit product: probabilities differ by at most bound/2⁶⁴, relatively.
constexpr std::uint64_t bounded(std::uint64_t random, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{random} * bound >> 64);
}

// A number for what it is drawn for.
constexpr std::uint64_t random_of(std::initializer_list<std::uint64_t> what) {
  std::uint64_t value = 0;
  for (const std::uint64_t part : what) value = mix(value + part);
  return value;
}

// A permutation of 0 to count − 1.
class SeededPermutation {
 public:
  constexpr SeededPermutation(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {}

  constexpr std::uint64_t operator()(std::uint64_t place) const {
    return permuted_place(count_, place,
                          [this](std::uint64_t round, std::uint64_t right) { return mix(mix(seed_ + round) + right); });
  }

 private:
  std::uint64_t count_, seed_;
};

}  // namespace cogwheel
