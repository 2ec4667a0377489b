// The blocking of amx_product.h over plain C++ tiles, on any machine, and over the instructions where the machine has
// them: both against the sums of the products.
#include "cogwheel/attention/kernels/cpu/amx_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "cogwheel/core/bfloat16.h"
#include "emulated_tiles.h"

namespace cogwheel {
namespace {

using Product = void (*)(std::int64_t, std::int64_t, std::int64_t, const PairOperands&);

struct Instructions {
  const char* name;
  Product product;
  bool (*available)();
};
void PrintTo(const Instructions& tested, std::ostream* out) { *out << tested.name; }

class AmxProduct : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (!GetParam().available()) GTEST_SKIP() << "this machine has no AMX";
  }
  void TearDown() override { release_amx(); }
};

INSTANTIATE_TEST_SUITE_P(By, AmxProduct,
                         testing::Values(Instructions{"Emulation", AmxBlocks<EmulatedTiles>::product,
                                                      [] { return true; }},
                                         Instructions{"Instructions", amx_product, machine_has_amx}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Strided operands of the exact size, and C with a margin that nothing may write to.
struct Operands {
  std::int64_t rows, vectors, pairs, a_row = pairs + 3, b_row = 16 * vectors + 5, c_row = 16 * vectors + 2;
  std::vector<float> a = floats((rows - 1) * a_row + pairs), b = floats((pairs - 1) * b_row + 16 * vectors),
                     c = floats(rows * c_row);

  static std::vector<float> floats(std::int64_t size) {
    return std::vector<float>(static_cast<std::size_t>(size), std::numeric_limits<float>::quiet_NaN());
  }
  template <class Number>
  Operands&& filled(Number&& number) && {
    const auto pair = [&] {
      const auto half = [&] { return std::bit_cast<std::uint32_t>(static_cast<float>(number())) >> 16; };
      const std::uint32_t low = half();
      return std::bit_cast<float>(half() << 16 | low);
    };
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < pairs; ++k) a[static_cast<std::size_t>(r * a_row + k)] = pair();
    for (std::int64_t k = 0; k < pairs; ++k)
      for (std::int64_t x = 0; x < 16 * vectors; ++x) b[static_cast<std::size_t>(k * b_row + x)] = pair();
    return std::move(*this);
  }
  void multiply(Product product) { product(rows, vectors, pairs, {a.data(), a_row, b.data(), b_row, c.data(), c_row}); }
  float got(std::int64_t r, std::int64_t x) const { return c[static_cast<std::size_t>(r * c_row + x)]; }

  // The true sum, and that of the magnitudes.
  std::pair<double, double> truth(std::int64_t r, std::int64_t x) const {
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < pairs; ++k) {
      const float of_a = a[static_cast<std::size_t>(r * a_row + k)], of_b = b[static_cast<std::size_t>(k * b_row + x)];
      for (const double term : {static_cast<double>(lower(of_a)) * static_cast<double>(lower(of_b)),
                                static_cast<double>(upper(of_a)) * static_cast<double>(upper(of_b))}) {
        sum += term;
        magnitude += std::abs(term);
      }
    }
    return {sum, magnitude};
  }
};

TEST_P(AmxProduct, SumsSmallIntegersExactlyAndWritesNothingElse) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> small(-4, 4);
  for (const std::int64_t rows : {1, 6, 15, 16, 17, 30, 32, 33, 70})
    for (std::int64_t vectors = 1; vectors <= 4; ++vectors)
      for (const std::int64_t pairs : {1, 2, 15, 16, 17, 32, 40}) {
        Operands x = Operands{rows, vectors, pairs}.filled([&] { return small(generator); });
        x.multiply(GetParam().product);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t column = 0; column < x.c_row; ++column) {
            const float got = x.got(r, column);
            if (column >= 16 * vectors)
              ASSERT_TRUE(got != got);
            else
              ASSERT_EQ(got, x.truth(r, column).first) << rows << " " << vectors << " " << pairs;
          }
      }
}

TEST_P(AmxProduct, IsNearTheProductOfWidenedRows) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (const std::int64_t pairs : {7, 32, 101}) {
    Operands x = Operands{37, 3, pairs}.filled([&] { return normal(generator); });
    x.multiply(GetParam().product);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t column = 0; column < 16 * x.vectors; ++column) {
        const auto [sum, magnitude] = x.truth(r, column);
        ASSERT_NEAR(x.got(r, column), sum, magnitude * static_cast<double>(pairs) * 0x1p-24);
      }
  }
}

TEST_P(AmxProduct, AddsToWhatThereIs) {
  std::mt19937 generator(4);
  std::uniform_int_distribution<int> small(-4, 4);
  for (const std::int64_t pairs : {5, 16, 40}) {
    Operands x = Operands{21, 3, pairs}.filled([&] { return small(generator); });
    std::fill(x.c.begin(), x.c.end(), 1000.0f);
    GetParam().product(x.rows, x.vectors, pairs, {x.a.data(), x.a_row, x.b.data(), x.b_row, x.c.data(), x.c_row, true});
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t column = 0; column < 16 * x.vectors; ++column)
        ASSERT_EQ(x.got(r, column), 1000 + x.truth(r, column).first);
  }
}

// Forward and backward split their rows and columns at different places.
TEST_P(AmxProduct, RoundsAnElementAlikeWhereverItLiesInATile) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  Operands whole = Operands{53, 4, 45}.filled([&] { return normal(generator); });
  whole.multiply(GetParam().product);
  for (const std::int64_t first : {1, 5, 16, 29})
    for (const std::int64_t vector : {0, 1, 3}) {
      std::vector<float> c = Operands::floats(20 * 16);
      GetParam().product(
          20, 1, 45,
          {whole.a.data() + first * whole.a_row, whole.a_row, whole.b.data() + 16 * vector, whole.b_row, c.data(), 16});
      for (std::int64_t r = 0; r < 20; ++r)
        for (std::int64_t x = 0; x < 16; ++x)
          ASSERT_EQ(c[static_cast<std::size_t>(16 * r + x)], whole.got(first + r, 16 * vector + x));
    }
}

}  // namespace
}  // namespace cogwheel
