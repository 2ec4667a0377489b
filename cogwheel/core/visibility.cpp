#include "cogwheel/core/visibility.h"

#include <numeric>
#include <utility>

namespace cogwheel {
namespace {

// The next key at or after `key` that no query has claimed yet, with path compression.
std::int64_t unclaimed(std::int64_t* next, std::int64_t key) {
  std::int64_t found = key;
  while (next[found] != found) found = next[found];
  while (next[key] != found) key = std::exchange(next[key], found);
  return found;
}

// Calls claim(key) once for each key of the range that was not claimed before: all ranges together cost about as much
// as there are keys.
template <class Claim>
void claim_range(std::int64_t* next, KeyRange range, const Claim& claim) {
  for (std::int64_t key = range.begin < range.end ? unclaimed(next, range.begin) : range.end; key < range.end;
       key = unclaimed(next, key)) {
    claim(key);
    next[key] = key + 1;
  }
}

}  // namespace

void invert(const KeyRange* ranges, std::int64_t queries, std::int64_t keys, std::int64_t* next, QueryRange* seen_by) {
  std::fill_n(seen_by, keys, QueryRange{0, 0});
  std::iota(next, next + keys + 1, std::int64_t{0});
  for (std::int64_t i = 0; i < queries; ++i)
    claim_range(next, ranges[i], [&](std::int64_t key) { seen_by[key].begin = i; });
  std::iota(next, next + keys + 1, std::int64_t{0});
  for (std::int64_t i = queries - 1; i >= 0; --i)
    claim_range(next, ranges[i], [&](std::int64_t key) { seen_by[key].end = i + 1; });
}

}  // namespace cogwheel
