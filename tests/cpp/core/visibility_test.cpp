#include "cogwheel/core/visibility.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cogwheel
