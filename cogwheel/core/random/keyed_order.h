// An order of 0 … count − 1 that follows from a key, without a table: any place can be asked for by itself.
#pragma once
#include <cstdint>

#include "cogwheel/core/random/permuted_place.h"
#include "cogwheel/core/random/philox.h"

namespace cogwheel {

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

}  // namespace cogwheel
