#include "cogwheel/attention/kernels/cpu/pair_product.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "cogwheel/core/bfloat16.h"

namespace cogwheel {
namespace {

// Small integers are exact in bfloat16.
std::uint32_t half(int x) { return bfloat16_of(static_cast<float>(x)); }
float pair(int low, int high) { return std::bit_cast<float>(half(high) << 16 | half(low)); }
int entry(std::int64_t row, std::int64_t column) {
  return static_cast<int>((7 * row + 3 * column + row * column) % 9) - 4;
}

// Every height and width of a tile, and beyond, from strided operands; outside C nothing is written.
TEST(PairProduct, SumsProductsExactly) {
  if (!machine_has_avx512_bf16()) GTEST_SKIP() << "this machine has no AVX512-BF16";
  for (std::int64_t rows = 1; rows <= 13; ++rows)
    for (std::int64_t vectors = 1; vectors <= 5; ++vectors)
      for (const std::int64_t pairs : {1, 2, 31}) {
        const std::int64_t a_row = pairs + 3, b_row = 16 * vectors + 5, c_row = 16 * vectors + 2;
        std::vector<float> a(static_cast<std::size_t>(rows * a_row)), b(static_cast<std::size_t>(pairs * b_row)),
            c(static_cast<std::size_t>(rows * c_row), std::numeric_limits<float>::quiet_NaN());
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t k = 0; k < pairs; ++k)
            a[static_cast<std::size_t>(r * a_row + k)] = pair(entry(r, 2 * k), entry(r, 2 * k + 1));
        for (std::int64_t k = 0; k < pairs; ++k)
          for (std::int64_t x = 0; x < 16 * vectors; ++x)
            b[static_cast<std::size_t>(k * b_row + x)] = pair(entry(x + 1, 2 * k), entry(x + 1, 2 * k + 1));
        pair_product(rows, vectors, pairs, {a.data(), a_row, b.data(), b_row, c.data(), c_row});
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < c_row; ++x) {
            const float got = c[static_cast<std::size_t>(r * c_row + x)];
            if (x >= 16 * vectors) {
              ASSERT_TRUE(got != got);
              continue;
            }
            int expected = 0;
            for (std::int64_t k = 0; k < 2 * pairs; ++k) expected += entry(r, k) * entry(x + 1, k);
            ASSERT_EQ(got, static_cast<float>(expected)) << rows << " " << vectors << " " << pairs;
          }
        const std::vector<float> once = c;
        pair_product(rows, vectors, pairs, {a.data(), a_row, b.data(), b_row, c.data(), c_row, true});
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < 16 * vectors; ++x)
            ASSERT_EQ(c[static_cast<std::size_t>(r * c_row + x)], 2 * once[static_cast<std::size_t>(r * c_row + x)]);
      }
}

// Where columns of A lie beside each other, as those of a transpose do.
TEST(PairProduct, ReadsPairsOfARowThatLieApart) {
  if (!machine_has_avx512_bf16()) GTEST_SKIP() << "this machine has no AVX512-BF16";
  constexpr std::int64_t rows = 13, vectors = 3, pairs = 9, stride = 21;
  std::vector<float> beside(rows * pairs), apart(pairs * stride), b(pairs * 16 * vectors),
      expected(rows * 16 * vectors), got = expected;
  for (std::int64_t k = 0; k < pairs; ++k) {
    for (std::int64_t r = 0; r < rows; ++r)
      beside[static_cast<std::size_t>(r * pairs + k)] = apart[static_cast<std::size_t>(k * stride + r)] =
          pair(entry(r, 2 * k), entry(r, 2 * k + 1));
    for (std::int64_t x = 0; x < 16 * vectors; ++x)
      b[static_cast<std::size_t>(k * 16 * vectors + x)] = pair(entry(x + 1, 2 * k), entry(x + 1, 2 * k + 1));
  }
  pair_product(rows, vectors, pairs, {beside.data(), pairs, b.data(), 16 * vectors, expected.data(), 16 * vectors});
  pair_product(rows, vectors, pairs,
               {apart.data(), 1, b.data(), 16 * vectors, got.data(), 16 * vectors, false, stride});
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace cogwheel
