#include "cogwheel/report/attention_map_code.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace cogwheel {
namespace {

std::string encoded(std::string_view text) {
  return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TEST(Base64, TestVectorsOfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xfe\xfd"), "//79");
}

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
}  // namespace cogwheel
