// Which keys a query sees. Hidden keys are skipped, never set to −∞ (|−∞| would be the largest exponent for Cog).
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

// One contiguous range of keys per query. Either by rule, for full, causal and sliding-window attention and any number
// of keys: then the ends never move back from one query to the next. Or by a table of arbitrary ranges (packed
// sequences, windows around predicted positions), with its inverse, computed by `invert`.
struct Visibility {
  std::int64_t keys = 0;
  bool causal = false;
  std::int64_t diagonal = 0;  // causal query i sees keys j ≤ i + diagonal; keys − queries aligns the last with the last
  std::int64_t window = 0;           // the last `window` keys that a causal query sees, itself included; 0: all of them
  const KeyRange* ranges = nullptr;  // [queries], in place of the rule
  const QueryRange* seen_by = nullptr;  // [keys], from the first query that sees a key to one past the last

  constexpr KeyRange of(std::int64_t query) const {
    if (ranges) return ranges[query];
    if (!causal) return {0, keys};
    const std::int64_t end = std::clamp<std::int64_t>(query + diagonal + 1, 0, keys);
    if (window == 0) return {0, end};
    return {std::clamp<std::int64_t>(query + diagonal + 1 - window, 0, end), end};
  }

  // From the first key that any of `count` ≥ 1 queries sees to one past the last.
  constexpr KeyRange seen_by_any(std::int64_t query, std::int64_t count) const {
    if (!ranges) return {of(query).begin, of(query + count - 1).end};
    KeyRange hull{keys, 0};
    for (std::int64_t i = query; i < query + count; ++i)
      if (ranges[i].size() > 0) hull = {std::min(hull.begin, ranges[i].begin), std::max(hull.end, ranges[i].end)};
    return hull.begin < hull.end ? hull : KeyRange{0, 0};
  }

  // The keys that all of `count` ≥ 1 queries see; end ≤ begin where there are none.
  constexpr KeyRange seen_by_all(std::int64_t query, std::int64_t count) const {
    if (!ranges) return {of(query + count - 1).begin, of(query).end};
    KeyRange common = ranges[query];
    for (std::int64_t i = query + 1; i < query + count; ++i)
      common = {std::max(common.begin, ranges[i].begin), std::min(common.end, ranges[i].end)};
    return common;
  }

  // From the first query, of `queries` in all, that sees a key to one past the last: the inverse of `of`. By rule,
  // every query between sees the key too.
  constexpr QueryRange seeing(std::int64_t key, std::int64_t queries) const {
    if (ranges) return seen_by[key];
    if (key >= keys) return {queries, queries};
    if (!causal) return {0, queries};
    const std::int64_t begin = std::clamp<std::int64_t>(key - diagonal, 0, queries);
    if (window == 0) return {begin, queries};
    return {begin, std::clamp<std::int64_t>(key - diagonal + window, begin, queries)};
  }

  // From the first query that sees any of `count` ≥ 1 keys to one past the last.
  constexpr QueryRange seeing_any(std::int64_t key, std::int64_t count, std::int64_t queries) const {
    if (!ranges) {
      const std::int64_t last = std::min(key + count, keys) - 1;
      return {seeing(key, queries).begin, last < key ? queries : seeing(last, queries).end};
    }
    QueryRange hull{queries, 0};
    for (std::int64_t j = key; j < key + count; ++j)
      if (seen_by[j].size() > 0) hull = {std::min(hull.begin, seen_by[j].begin), std::max(hull.end, seen_by[j].end)};
    return hull.begin < hull.end ? hull : QueryRange{queries, queries};
  }

  // Whether all of `count` ≥ 1 keys are seen by every query of [first, end).
  constexpr bool seen_throughout(std::int64_t key, std::int64_t count, QueryRange by, std::int64_t queries) const {
    if (ranges) return false;
    return seeing(key + count - 1, queries).begin <= by.begin && seeing(key, queries).end >= by.end;
  }
};

// The inverse of a table: for each of `keys`, from the first query that sees it to one past the last; {0, 0} where none
// does. Ranges lie within [0, keys). `next` is scratch, [keys + 1].
void invert(const KeyRange* ranges, std::int64_t queries, std::int64_t keys, std::int64_t* next, QueryRange* seen_by);

}  // namespace cogwheel
