// Random numbers that follow from what they are drawn for, such as seed, step and row: the same on every machine, in
// any order. They are made of integers, sums and products alone, which every machine rounds alike; a library's
// distributions are not.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string_view>

#include "cogwheel/core/philox.h"

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

// The number of a stream by its name of up to four letters: what is drawn in one stream tells nothing of another with
// the same seed.
constexpr std::uint32_t stream_named(std::string_view name) {
  std::uint32_t number = 0;
  for (std::size_t at = 0; at < 4; ++at)
    number = number << 8 | (at < name.size() ? static_cast<unsigned char>(name[at]) : 0U);
  return number;
}

// Random numbers of one numbered thing, whatever else was drawn before.
class NumberedDraws {
 public:
  // `stream` keeps apart what is drawn with the same seed and number.
  NumberedDraws(std::uint64_t seed, std::uint32_t stream, std::uint64_t number)
      : key_(philox_key(seed)),
        counter_{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), stream, 0} {}

  // In [0, 1).
  double uniform() { return 0x1p-32 * next()[0]; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  // In [0, count).
  std::size_t below(std::size_t count) {
    const PhiloxWords words = next();
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(Wide{(std::uint64_t{words[0]} << 32) | words[1]} * count >> 64);
  }
  bool with_probability(double probability) { return uniform() < probability; }
  // Mean 0, deviation 1: nearly normal, the sum of eight uniform numbers, and so never beyond 4.9.
  double normal() {
    std::int64_t sum = 0;
    for (const std::uint32_t word : next()) sum += (word & 0xffff) + (word >> 16);
    return (static_cast<double>(sum) * 0x1p-16 - (4 - 0x1p-14)) * std::sqrt(1.5);
  }

 private:
  PhiloxWords next() {
    const PhiloxWords words = philox(counter_, key_);
    ++counter_[3];
    return words;
  }

  PhiloxKey key_;
  PhiloxWords counter_;
};

// A permutation of 0 … count − 1 at a place, without making the whole of it: a Feistel network on the smallest power of
// 4 that holds them, walked until a number below `count` comes (Black and Rogaway 2002): 4 times at most on average.
// `mixed(round, right)` gives random bits for half of a number in one of six rounds; which ones decides the
// permutation.
template <class Mixed>
constexpr std::uint64_t permuted_place(std::uint64_t count, std::uint64_t place, const Mixed& mixed) {
  const int half = count < 2 ? 1 : (static_cast<int>(std::bit_width(count - 1)) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = place >> half, right = place & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const std::uint64_t next = left ^ (mixed(round, right) & mask);
      left = right;
      right = next;
    }
    place = left << half | right;
  } while (place >= count);
  return place;
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

// An order of 0 … count − 1 that follows from a key, without a table: any place can be asked for by itself.
class KeyedOrder {
 public:
  // `number` tells orders of the same seed apart: an epoch. At least one element.
  KeyedOrder(std::uint64_t count, std::uint64_t seed, std::uint64_t number)
      : count_(count), seed_(seed), number_(number) {}

  std::uint64_t at(std::uint64_t place) const {
    return permuted_place(count_, place, [this](std::uint32_t round, std::uint64_t right) {
      return std::uint64_t{philox({static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(number_),
                                   static_cast<std::uint32_t>(number_ >> 32)},
                                  philox_key(seed_))[0]};
    });
  }

 private:
  std::uint64_t count_, seed_, number_;
};

// In [0, 1), from the upper 53 bits, the same with every standard library.
inline double uniform_number(std::mt19937_64& generator) { return static_cast<double>(generator() >> 11) * 0x1p-53; }

}  // namespace cogwheel
