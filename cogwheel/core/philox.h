// A counter-based generator: four random words for each counter and key, without state, so that the backward pass draws
// the same numbers as the forward pass, in any order. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (2011): Philox4x32, 10 rounds.
#pragma once
#include <array>
#include <cstdint>

namespace cogwheel {

using PhiloxWords = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

inline constexpr int philox_rounds = 10;
inline constexpr std::uint64_t philox_multiplier0 = 0xD2511F53, philox_multiplier1 = 0xCD9E8D57;

// One round; philox_next_key gives the key of the next.
constexpr PhiloxWords philox_round(const PhiloxWords& counter, const PhiloxKey& key) {
  const std::uint64_t product0 = philox_multiplier0 * counter[0];
  const std::uint64_t product1 = philox_multiplier1 * counter[2];
  return {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
          static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
}

constexpr PhiloxKey philox_next_key(const PhiloxKey& key) { return {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85}; }

constexpr PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  for (int round = 0; round < philox_rounds; ++round, key = philox_next_key(key)) counter = philox_round(counter, key);
  return counter;
}

}  // namespace cogwheel
