#include "cogwheel/attention/kernels/cpu/pair_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "cogwheel/attention/kernels/cpu/pair_product.h"

namespace cogwheel {
namespace {

class PairRows : public testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has_avx512_bf16()) GTEST_SKIP() << "this machine has no AVX512-BF16";
  }
};

std::uint32_t bits(float pair) { return std::bit_cast<std::uint32_t>(pair); }

TEST_F(PairRows, PutsTwoRowsBesideEachOther) {
  for (const std::int64_t count : {1, 2, 5, 8})
    for (const std::int64_t width : {1, 15, 16, 20, 64}) {
      const std::int64_t stride = width + 3, to_row = (width + 15) / 16 * 16, pairs = (count + 1) / 2;
      std::vector<std::uint16_t> rows(static_cast<std::size_t>((count - 1) * stride + width), 0x7fc0);  // NaN between
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t d = 0; d < width; ++d)
          rows[static_cast<std::size_t>(j * stride + d)] = static_cast<std::uint16_t>(1 + 100 * j + d);
      std::vector<float> to(static_cast<std::size_t>(pairs * to_row), std::numeric_limits<float>::quiet_NaN());
      EXPECT_FALSE(pair_rows(rows.data(), stride, count, width, to.data(), to_row));
      const auto element = [&](std::int64_t j, std::int64_t d) {
        return j < count && d < width ? static_cast<std::uint32_t>(1 + 100 * j + d) : 0u;
      };
      for (std::int64_t p = 0; p < pairs; ++p)
        for (std::int64_t d = 0; d < to_row; ++d)
          ASSERT_EQ(bits(to[static_cast<std::size_t>(p * to_row + d)]),
                    element(2 * p + 1, d) << 16 | element(2 * p, d));
    }
}

TEST_F(PairRows, SaysWhetherAnyElementIsInfiniteOrNaN) {
  for (const std::uint16_t other : std::initializer_list<std::uint16_t>{0x7f80, 0xff80, 0x7fc0, 0x7f81})
    for (std::size_t at = 0; at < 60; at += 7) {
      std::vector<std::uint16_t> rows(60, 0x7f7f);  // the largest number
      std::vector<float> to(64);
      EXPECT_FALSE(pair_rows(rows.data(), 20, 3, 20, to.data(), 32));
      rows[at] = other;
      EXPECT_TRUE(pair_rows(rows.data(), 20, 3, 20, to.data(), 32)) << at;
    }
}

TEST_F(PairRows, RoundsToNearestEvenInPlace) {
  // 1 is 0x3f80: halfway to the next number, just below and just above it, and halfway from an odd one.
  const float halfway = 1 + 0x1p-8f, odd = 1 + 0x1p-7f + 0x1p-8f;
  std::vector<float> rows(2 * 40, 0.0f);
  for (std::size_t r = 0; r < 2; ++r) {
    float* row = rows.data() + 40 * r;
    row[0] = halfway, row[1] = std::nextafter(halfway, 0.0f), row[2] = std::nextafter(halfway, 2.0f), row[3] = odd;
    row[30] = -halfway, row[31] = -odd;
  }
  round_to_pairs(2, 32, rows.data(), 40, rows.data(), 40);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(bits(rows[40 * r]), 0x3f803f80u);
    EXPECT_EQ(bits(rows[40 * r + 1]), 0x3f823f81u);
    EXPECT_EQ(bits(rows[40 * r + 15]), 0xbf82bf80u);
  }
}

TEST_F(PairRows, RoundsPairsOfTwoRowsTimesTheirFactors) {
  std::vector<float> rows(3 * 20, 0.0f), factors = {2, 0.5f, -1}, to(2 * 24, 7.0f);
  for (std::size_t x = 0; x < 16; ++x) rows[x] = static_cast<float>(x), rows[20 + x] = 8, rows[40 + x] = 1 + 0x1p-8f;
  const auto bits_of = [&](const float* by, std::size_t row, std::size_t x) {
    round_to_pairs_of_rows(3, 16, rows.data(), 20, by, to.data(), 24);
    return bits(to[24 * row + x]);
  };
  EXPECT_EQ(bits_of(nullptr, 0, 3), 0x41004040u);         // 8 above 3
  EXPECT_EQ(bits_of(factors.data(), 0, 3), 0x408040c0u);  // 4 above 6
  EXPECT_EQ(bits_of(factors.data(), 1, 5), 0x0000bf80u);  // nothing above −1, rounded to even
  EXPECT_EQ(to[16], 7.0f);
  factors[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits_of(factors.data(), 0, 0), 0x40800000u);  // a hidden key stays hidden
  EXPECT_EQ(bits_of(factors.data(), 0, 1), 0x40807f80u);
}

TEST_F(PairRows, SelectsElementsOfPairs) {
  const std::vector<float> from(16, std::bit_cast<float>(0x7fc01234u));
  std::vector<float> to(16);
  const auto selected = [&](bool lower, bool upper) {
    select_of_pairs(from.data(), 16, lower, upper, to.data());
    return bits(to[7]);
  };
  EXPECT_EQ(selected(true, true), 0x7fc01234u);
  EXPECT_EQ(selected(true, false), 0x1234u);
  EXPECT_EQ(selected(false, true), 0x7fc00000u);
  EXPECT_EQ(selected(false, false), 0u);
}

}  // namespace
}  // namespace cogwheel
