#include "cogwheel/serve/head_maps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/core/encoding/base64.h"

namespace cogwheel::serve {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

HeadMaps one_head(std::int64_t tokens, const std::vector<float>& square) {
  HeadMaps maps(tokens);
  maps.add_layer();
  maps.add_head(square);
  return maps;
}

const HeadMap& only(const HeadMaps& maps) { return maps.layers().at(0).at(0); }

std::vector<int> codes_of(const std::string& text) {
  std::vector<int> codes;
  const std::string bytes = from_base64(text).value_or("none");
  for (const char byte : bytes) codes.push_back(static_cast<signed char>(byte));
  return codes;
}

TEST(HeadMaps, KeepTheLowerTriangleToFourDigits) {
  const HeadMaps maps = one_head(3, {0.5F, 9, 9, -0.25F, 2, 9, 0, 1e-6F, -1.999F});
  const std::vector<float> expected{0.5F, -0.25F, 2, 0, 1e-6F, -1.999F};
  const std::vector<float> numbers = numbers_of(only(maps));
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index)
    EXPECT_NEAR(numbers[index], expected[index], 1e-4 * std::abs(expected[index]) + 1e-7);
  EXPECT_EQ(maps.largest(), 2);
  EXPECT_EQ(maps.bytes(), 12);
}

TEST(HeadMaps, HiddenKeysStayHidden) {
  const HeadMaps left = one_head(2, {hidden, 0, 3, -4}), right = one_head(2, {1, 0, hidden, 2});
  EXPECT_EQ(only(left).range, 4);
  EXPECT_EQ(numbers_of(only(left))[0], hidden);
  const std::vector<float> subtracted = numbers_of(only(difference(left, right)));
  EXPECT_EQ(subtracted[0], hidden);
  EXPECT_EQ(subtracted[1], hidden);
  EXPECT_NEAR(subtracted[2], -6, 1e-3);
  const std::vector<float> products = numbers_of(only(times_value_lengths(left, {{{2, 10}}})));
  EXPECT_EQ(products[0], hidden);
  EXPECT_NEAR(products[1], 6, 1e-3);
  EXPECT_NEAR(products[2], 40, 1e-3);
  EXPECT_EQ(codes_of(small_map(only(left), 2, 96)), (std::vector<int>{-128, 110, -127}));
}

TEST(HeadMaps, APointOfASmallMapIsTheFarthestOfItsSquare) {
  std::vector<float> square(16, 0);
  square[2 * 4 + 1] = 0.25F, square[3 * 4 + 0] = -1, square[3 * 4 + 3] = 0.5F, square[1 * 4 + 3] = 7;
  // Of 4 tokens two points: the second row's first point stands for queries 2 and 3, keys 0 and 1.
  EXPECT_EQ(codes_of(small_map(only(one_head(4, square)), 4, 2)), (std::vector<int>{0, -127, 90}));
}

TEST(HeadMaps, CodesOf16BitsAreLittleEndian) {
  EXPECT_EQ(codes_of(encode(only(one_head(1, {-3})), 16)), (std::vector<int>{0x01, -128}));
  EXPECT_EQ(codes_of(encode(only(one_head(1, {-3})), 8)), std::vector<int>{-127});
  EXPECT_EQ(codes_of(encode(only(one_head(1, {0})), 16)), (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace cogwheel::serve
