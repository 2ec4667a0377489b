// Random numbers of one numbered thing: the same on every machine, whatever else was drawn before. They are made of
// integers, sums and products alone, which every machine rounds alike; a library's distributions are not.
#pragma once
#include <cmath>
#include <cstdint>

#include "cogwheel/core/random/philox.h"

namespace cogwheel {

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

}  // namespace cogwheel
