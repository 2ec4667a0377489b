#include "cogwheel/core/visibility.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace cogwheel {
namespace {

// The definition, key by key.
bool sees(const Visibility& v, std::int64_t query, std::int64_t key) {
  if (!v.causal) return true;
  if (key > query + v.diagonal) return false;
  return v.window == 0 || key > query + v.diagonal - v.window;
}

class VisibilityCase : public ::testing::TestWithParam<Visibility> {};

TEST_P(VisibilityCase, RangesAndTheirInverseAgreeWithTheDefinition) {
  const Visibility& v = GetParam();
  constexpr std::int64_t queries = 17;
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < v.keys; ++j) {
      const KeyRange keys = v.of(i);
      const QueryRange seeing = v.seeing(j, queries);
      EXPECT_EQ(keys.begin <= j && j < keys.end, sees(v, i, j)) << "query " << i << ", key " << j;
      EXPECT_EQ(seeing.begin <= i && i < seeing.end, sees(v, i, j)) << "query " << i << ", key " << j;
    }
}

TEST_P(VisibilityCase, RangesNeverMoveBack) {
  const Visibility& v = GetParam();
  for (std::int64_t i = 0; i < 16; ++i) {
    EXPECT_LE(v.of(i).begin, v.of(i + 1).begin);
    EXPECT_LE(v.of(i).end, v.of(i + 1).end);
    EXPECT_GE(v.of(i).size(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, VisibilityCase,
                         ::testing::Values(Visibility{.keys = 11}, Visibility{.keys = 17, .causal = true},
                                           Visibility{.keys = 23, .causal = true, .diagonal = 6},
                                           Visibility{.keys = 9, .causal = true, .diagonal = -8},
                                           Visibility{.keys = 17, .causal = true, .window = 1},
                                           Visibility{.keys = 23, .causal = true, .diagonal = 6, .window = 5},
                                           Visibility{.keys = 9, .causal = true, .diagonal = -8, .window = 4}));

// Ranges in any order, empty ones and a key that nobody sees among them.
TEST(VisibilityTable, InverseReachesFromTheFirstQueryThatSeesAKeyPastTheLast) {
  constexpr std::int64_t keys = 12;
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<KeyRange> ranges(1 + random() % 9);
    for (auto& range : ranges) {
      range.begin = static_cast<std::int64_t>(random() % (keys + 1));
      range.end = range.begin + static_cast<std::int64_t>(random() % static_cast<unsigned>(keys + 1 - range.begin));
    }
    const auto queries = static_cast<std::int64_t>(ranges.size());
    std::vector<std::int64_t> next(keys + 1);
    std::vector<QueryRange> seen_by(keys);
    invert(ranges.data(), queries, keys, next.data(), seen_by.data());
    for (std::int64_t j = 0; j < keys; ++j) {
      QueryRange expected{0, 0};
      for (std::int64_t i = queries - 1; i >= 0; --i)
        if (const KeyRange range = ranges[static_cast<std::size_t>(i)]; range.begin <= j && j < range.end)
          expected = {i, expected.end == 0 ? i + 1 : expected.end};
      EXPECT_EQ(seen_by[static_cast<std::size_t>(j)].begin, expected.begin) << "key " << j;
      EXPECT_EQ(seen_by[static_cast<std::size_t>(j)].end, expected.end) << "key " << j;
    }
    const Visibility v{.keys = keys, .ranges = ranges.data(), .seen_by = seen_by.data()};
    const KeyRange any = v.seen_by_any(0, queries), all = v.seen_by_all(0, queries);
    for (std::int64_t j = 0; j < keys; ++j) {
      std::int64_t count = 0;
      for (const KeyRange& range : ranges) count += range.begin <= j && j < range.end ? 1 : 0;
      EXPECT_TRUE(count == 0 || (any.begin <= j && j < any.end)) << "key " << j;
      EXPECT_EQ(all.begin <= j && j < all.end, count == queries) << "key " << j;
    }
  }
}

TEST(VisibilityRule, AKeyBeyondTheLengthIsSeenByNobody) {
  const Visibility v{.keys = 5, .causal = true, .diagonal = 0};
  EXPECT_EQ(v.seeing(5, 9).size(), 0);
  EXPECT_EQ(v.seeing_any(4, 3, 9).begin, 4);
  EXPECT_EQ(v.seeing_any(4, 3, 9).end, 9);
  EXPECT_EQ(v.seeing_any(5, 3, 9).size(), 0);
  EXPECT_EQ(v.of(8).end, 5);
}

}  // namespace
}  // namespace cogwheel
