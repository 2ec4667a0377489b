#include "cogwheel/core/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cogwheel {
namespace {

TEST(BFloat16, EveryValueRoundTrips) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto number = static_cast<std::uint16_t>(bits);
    const float x = float_of_bfloat16(number);
    if (x == x)
      ASSERT_EQ(bfloat16_of(x), number);
    else
      ASSERT_TRUE(std::isnan(float_of_bfloat16(bfloat16_of(x))));
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  const auto rounded = [](float x) { return float_of_bfloat16(bfloat16_of(x)); };
  EXPECT_EQ(rounded(1 + 0x1p-8f), 1);                       // half of the last place, to the even one
  EXPECT_EQ(rounded(1 + 0x1p-7f + 0x1p-8f), 1 + 0x1p-6f);   // the same, whose even one is above
  EXPECT_EQ(rounded(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);  // a little more than half
  EXPECT_EQ(rounded(-1 - 0x1p-8f + 0x1p-20f), -1);          // a little less
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(0x1p-149f), 0);
}

// All payload bits lie below the ones that are kept, or rounding carries beyond them.
TEST(BFloat16, ANanStaysOne) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff80ffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(float_of_bfloat16(bfloat16_of(std::bit_cast<float>(bits))))) << bits;
}

}  // namespace
}  // namespace cogwheel
