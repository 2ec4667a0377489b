// A permutation of 0 … count − 1 at a place, without making the whole of it: a Feistel network on the smallest power of
// 4 that holds them, walked until a number below `count` comes (Black and Rogaway 2002): 4 times at most on average.
#pragma once
#include <bit>
#include <cstdint>

namespace cogwheel {

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

}  // namespace cogwheel
