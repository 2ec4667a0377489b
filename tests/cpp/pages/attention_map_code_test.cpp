#include "cogwheel/pages/attention_map_code.h"

#include <gtest/gtest.h>

#include <vector>

#include "cogwheel/core/encoding/base64.h"

namespace cogwheel::pages {
namespace {

TEST(AttentionMapCode, SignedSquareRootsOfTheLowerTriangle) {
  // 1, −1, 0.25 → 127, −127, 64 (63.5 rounded away from 0); the upper triangle is left out.
  const std::vector<float> weights{1.0F, 9.0F, -1.0F, 0.25F};
  const std::vector<std::uint8_t> codes{127, 129, 64};
  EXPECT_EQ(encode_attention_map(weights, 2), base64(codes));
}

TEST(AttentionMapCode, CutsBeyondOne) {
  const std::vector<float> weights{-3.0F};
  const std::vector<std::uint8_t> codes{129};
  EXPECT_EQ(encode_attention_map(weights, 1), base64(codes));
}

}  // namespace
}  // namespace cogwheel::pages
