// bfloat16 as bits: the upper half of a float.
#pragma once
#include <bit>
#include <cstdint>

namespace cogwheel {

inline float float_of_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// Rounds to nearest even. A NaN stays a NaN, even if its payload would round to infinity;
// attention/kernels/cpu/half_rows_body.h does the same for vectors.
inline std::uint16_t bfloat16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>(x == x ? nearest : (bits >> 16) | 0x0040);
}

}  // namespace cogwheel
