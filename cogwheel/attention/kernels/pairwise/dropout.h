// Which weights dropout keeps, the same for every engine: key j of a row reads one 32-bit word, drawn from a counter
// by (seed, head, query, key), and its weight is kept if the word lies below a bound.
//
// The words of 64 keys, a panel, come from 16 counters: key 16·w + c of the panel reads word w of counter c.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cogwheel/core/philox.h"

namespace cogwheel::dropout {

inline constexpr std::int64_t counters_per_panel = 16, words_per_counter = 4;
inline constexpr std::int64_t panel = counters_per_panel * words_per_counter;

// Where a call lies that computes a part of a larger one, whose weights it drops: the larger one's first query and
// first head here, where heads count through its batch, and how many heads a batch entry of it has (0: as many as the
// call).
struct Part {
  std::int64_t first_query = 0, first_head = 0, heads = 0;

  constexpr std::int64_t query(std::int64_t of_call) const { return first_query + of_call; }
  constexpr std::int64_t head(std::int64_t batch, std::int64_t of_call, std::int64_t heads_of_call) const {
    return first_head + batch * (heads > 0 ? heads : heads_of_call) + of_call;
  }
};

constexpr std::uint64_t kept_below(double probability) {
  return static_cast<std::uint64_t>((1 - probability) * 4294967296.0);
}

// The factor of a kept weight.
template <class T>
constexpr T kept_factor(double probability) {
  return static_cast<T>(1 / (1 - probability));
}

constexpr PhiloxWords counter(std::int64_t index, std::int64_t query, std::int64_t head) {
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(head), 0};
}

// The factors of the weights of one row, `factors` [keys]. head counts through the batch: batch entry · heads +
// head of the output.
template <class T>
void factors_of_row(double probability, std::uint64_t seed, std::int64_t head, std::int64_t query, std::int64_t keys,
                    T* factors) {
  const std::uint64_t bound = kept_below(probability);
  const T kept = kept_factor<T>(probability);
  const PhiloxKey key = philox_key(seed);
  for (std::int64_t first = 0; first < keys; first += panel)
    for (std::int64_t c = 0; c < std::min(counters_per_panel, keys - first); ++c) {
      const PhiloxWords words = philox(counter(first / words_per_counter + c, query, head), key);
      std::int64_t j = first + c;
      for (const std::uint32_t word : words) {
        if (j < keys) factors[j] = word < bound ? kept : T(0);
        j += counters_per_panel;
      }
    }
}

}  // namespace cogwheel::dropout
