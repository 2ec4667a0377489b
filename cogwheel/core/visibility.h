// Which keys a query sees. Hidden keys are skipped, never set to −∞ (|−∞| is the largest energy there is for Cog).
#pragma once
#include <algorithm>
#include <cstdint>

namespace cogwheel {

// Keys [begin, end).
struct KeyRange {
  std::int64_t begin, end;
  constexpr std::int64_t size() const { return end - begin; }
};

// Queries [begin, end).
struct QueryRange {
  std::int64_t begin, end;
  constexpr std::int64_t size() const { return end - begin; }
};

// One contiguous range of keys per query, whose ends never move back as the query moves on: full, causal and sliding
// attention, and any length of keys. The engines rely on both properties.
struct Visibility {
  std::int64_t keys = 0;
  bool causal = false;
  std::int64_t diagonal = 0;  // causal query i sees keys j ≤ i + diagonal; keys − queries aligns the last with the last
  std::int64_t window = 0;  // the last `window` keys that a causal query sees, itself included; 0: all of them

  constexpr KeyRange of(std::int64_t query) const {
    if (!causal) return {0, keys};
    const std::int64_t end = std::clamp<std::int64_t>(query + diagonal + 1, 0, keys);
    if (window == 0) return {0, end};
    return {std::clamp<std::int64_t>(query + diagonal + 1 - window, 0, end), end};
  }

  // The queries, of `queries` in all, that see a key: the inverse of `of`.
  constexpr QueryRange seeing(std::int64_t key, std::int64_t queries) const {
    if (!causal) return {0, queries};
    const std::int64_t begin = std::clamp<std::int64_t>(key - diagonal, 0, queries);
    if (window == 0) return {begin, queries};
    return {begin, std::clamp<std::int64_t>(key - diagonal + window, begin, queries)};
  }
};

}  // namespace cogwheel
