// An order of 0 … count − 1 that follows from a key, without a table: any place can be asked for by itself.
#pragma once
#include <cstdint>

#include "cogwheel/core/philox.h"

namespace cogwheel {

class KeyedOrder {
 public:
  // `number` tells orders of the same seed apart: an epoch. At least one element.
  KeyedOrder(std::uint64_t count, std::uint64_t seed, std::uint64_t number)
      : count_(count), seed_(seed), number_(number) {
    while (half_ < 32 && (std::uint64_t{1} << (2 * half_)) < count) ++half_;
  }

  // A bijection. A Feistel network permutes the next power of four; what lies beyond `count` is sent through it again,
  // four times in the mean at most, until it lies within.
  std::uint64_t at(std::uint64_t place) const {
    do place = permuted(place);
    while (place >= count_);
    return place;
  }

 private:
  std::uint64_t permuted(std::uint64_t place) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t left = place >> half_, right = place & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const std::uint32_t mixed = philox({static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(number_),
                                          static_cast<std::uint32_t>(number_ >> 32)},
                                         philox_key(seed_))[0];
      const std::uint64_t next = left ^ (mixed & mask);
      left = right, right = next;
    }
    return left << half_ | right;
  }

  std::uint64_t count_, seed_, number_;
  unsigned half_ = 1;
};

}  // namespace cogwheel
