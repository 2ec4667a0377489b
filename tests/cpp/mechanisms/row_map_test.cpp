// What the header of a row map claims of itself: slopes against finite differences, the energy against overflow. The
// formulas are judged elsewhere, by dense formulas that share nothing with the headers.
#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/mechanisms/all_mechanisms.h"  // generated from mechanisms.def
#include "cogwheel/mechanisms/contract.h"

namespace cogwheel {
namespace {

template <class Map>
class RowMapTest : public ::testing::Test {};

struct None {};
using RowMaps = ::testing::Types<
#define ROW_MAP(identifier, Map) Map,
#define FORM(identifier, Form)
#define DENSE(identifier, Form)
#include "cogwheel/mechanisms/mechanisms.def"
#undef ROW_MAP
#undef FORM
#undef DENSE
    None>;
TYPED_TEST_SUITE(RowMapTest, RowMaps);

TYPED_TEST(RowMapTest, SlopesAreThoseOfTheTerms) {
  if constexpr (!std::is_same_v<TypeParam, None>) {
    static_assert(RowMap<TypeParam, double>);
    const TypeParam map;
    const Row<double> row{.visible = 7, .shift = 1.5};
    for (double s : {-5.0, -1.25, -0.01, 0.02, 0.5, 4.0}) {
      const double h = 1e-6;
      const Terms<double> up = map.terms(s + h, row), down = map.terms(s - h, row), slopes = map.slopes(s, row);
      EXPECT_NEAR(slopes.weight, (up.weight - down.weight) / (2 * h), 1e-8 * (1 + std::abs(slopes.weight))) << s;
      EXPECT_NEAR(slopes.mass, (up.mass - down.mass) / (2 * h), 1e-8 * (1 + std::abs(slopes.mass))) << s;
    }
  }
}

TYPED_TEST(RowMapTest, NormalizerSlopeIsThatOfItsValue) {
  if constexpr (!std::is_same_v<TypeParam, None>) {
    const TypeParam map;
    const Row<double> row{.visible = 7, .shift = 1.5};
    for (double mass : {0.5, 1.0, 30.0}) {
      const double h = 1e-6;
      const double difference = (map.normalizer(mass + h, row).value - map.normalizer(mass - h, row).value) / (2 * h);
      EXPECT_NEAR(map.normalizer(mass, row).slope, difference, 1e-8);
    }
  }
}

TYPED_TEST(RowMapTest, EnergyBoundsTheTerms) {
  if constexpr (!std::is_same_v<TypeParam, None> && EnergyMap<TypeParam, double>) {
    const TypeParam map;
    const double scores[] = {-1e4, -100, 0, 1, 1e4};
    double shift = map.energy(scores[0]);
    for (double s : scores) shift = std::max(shift, map.energy(s));
    for (double s : scores) {
      const Terms<double> terms = map.terms(s, Row<double>{.visible = 5, .shift = shift});
      EXPECT_LE(std::abs(terms.weight), 1) << s;
      EXPECT_LE(terms.mass, 1) << s;
    }
  }
}

TEST(Cog, AtAScoreOfZeroKeepsItsMassAndItsSlope) {
  const Row<double> row{.visible = 3, .shift = 0};
  for (double zero : {0.0, -0.0}) {
    EXPECT_EQ(Cog::terms(zero, row).weight, 0);
    EXPECT_EQ(Cog::terms(zero, row).mass, 1);
    EXPECT_EQ(Cog::slopes(zero, row).weight, 1);
    EXPECT_EQ(Cog::slopes(zero, row).mass, 0);
  }
}

TEST(Differential, LambdaInitFollowsThePaper) {
  // Layers 1 to 6 of S4-17: 0.20, 0.36, 0.47, 0.56, 0.62, 0.67.
  const double expected[] = {0.20, 0.36, 0.47, 0.56, 0.62, 0.67};
  for (int depth = 0; depth < 6; ++depth) EXPECT_NEAR(Differential::lambda_init(depth), expected[depth], 0.006);
}

}  // namespace
}  // namespace cogwheel
