// What the header of a row map claims: derivatives against finite differences, the energy against overflow. The
// formulas are tested elsewhere, against dense formulas that share nothing with the headers.
#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/attention/mechanisms/all_mechanisms.h"  // generated from mechanisms.def
#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"

namespace cogwheel {
namespace {

template <class Map>
class RowMapTest : public ::testing::Test {};

// At scalars without special values.
template <class Map>
constexpr Differentiated<Map> at_some_scalars() {
  Differentiated<Map> map;
  for (std::size_t p = 0; p < map.theta.size(); ++p) map.theta[p] = 0.7 + 0.6 * static_cast<double>(p);
  return map;
}

struct None {};
using RowMaps = ::testing::Types<
#define ROW_MAP(identifier, Map) Map,
#define FORM(identifier, Form)
#define DENSE(identifier, Form)
#define RECURRENT(identifier, Law)
#include "cogwheel/attention/mechanisms/mechanisms.def"
#undef ROW_MAP
#undef FORM
#undef DENSE
#undef RECURRENT
    None>;
TYPED_TEST_SUITE(RowMapTest, RowMaps);

TYPED_TEST(RowMapTest, DerivativesAreThoseOfTheTerms) {
  if constexpr (!std::is_same_v<TypeParam, None>) {
    static_assert(RowMap<TypeParam, double>);
    const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
    const Row<double> row{.visible = 7, .shift = 1.5};
    for (double s : {-5.0, -1.25, -0.01, 0.02, 0.5, 4.0}) {
      const double h = 1e-6;
      const Terms<double> up = map.terms(s + h, row), down = map.terms(s - h, row),
                          derivatives = map.terms_with_derivatives(s, row).derivatives;
      EXPECT_NEAR(derivatives.weight, (up.weight - down.weight) / (2 * h), 1e-8 * (1 + std::abs(derivatives.weight)))
          << s;
      EXPECT_NEAR(derivatives.mass, (up.mass - down.mass) / (2 * h), 1e-8 * (1 + std::abs(derivatives.mass))) << s;
    }
  }
}

TYPED_TEST(RowMapTest, SaysWhetherItsWeightsAreExponentials) {
  if constexpr (!std::is_same_v<TypeParam, None>) {
    const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
    const Row<double> row{.visible = 7, .shift = 5.5};
    bool are_exponentials = EnergyMap<TypeParam, double>;
    if constexpr (EnergyMap<TypeParam, double>)
      for (double s : {-5.0, -1.25, -0.01, 0.0, 0.02, 0.5, 4.0}) {
        const double weight = std::abs(map.terms(s, row).weight);
        are_exponentials &= weight == 0 || std::abs(weight / std::exp(map.energy(s) - row.shift) - 1) < 1e-12;
      }
    EXPECT_EQ(weights_are_exponentials<TypeParam>, are_exponentials);
  }
}

TYPED_TEST(RowMapTest, NormalizerDerivativeIsThatOfItsValue) {
  if constexpr (!std::is_same_v<TypeParam, None>) {
    const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
    const Row<double> row{.visible = 7, .shift = 1.5};
    for (double mass : {0.5, 1.0, 30.0}) {
      const double h = 1e-6;
      const double difference = (map.normalizer(mass + h, row) - map.normalizer(mass - h, row)) / (2 * h);
      EXPECT_NEAR(map.normalizer_with_derivatives(mass, row).derivative, difference, 1e-8);
    }
  }
}

TYPED_TEST(RowMapTest, DerivativesOfLearnableScalarsAreThoseOfTheTermsAndTheNormalizer) {
  if constexpr (!std::is_same_v<TypeParam, None> && LearnableMap<TypeParam>) {
    const Row<double> row{.visible = 7, .shift = 1.5};
    const double h = 1e-6;
    for (std::size_t p = 0; p < parameter_count<TypeParam>; ++p)
      for (double x : {0.3, 1.0, 4.0}) {
        const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
        Differentiated<TypeParam> above = map, below = map;
        above.theta[p] += h;
        below.theta[p] -= h;
        const Terms<double> derivatives = map.terms_with_derivatives(x, row).parameter_derivatives[p];
        const Terms<double> up = above.terms(x, row), down = below.terms(x, row);
        EXPECT_NEAR(derivatives.weight, (up.weight - down.weight) / (2 * h), 1e-8 * (1 + std::abs(derivatives.weight)))
            << x;
        EXPECT_NEAR(derivatives.mass, (up.mass - down.mass) / (2 * h), 1e-8) << x;
        EXPECT_NEAR(map.normalizer_with_derivatives(x, row).parameter_derivatives[p],
                    (above.normalizer(x, row) - below.normalizer(x, row)) / (2 * h), 1e-8)
            << x;
      }
  }
}

TYPED_TEST(RowMapTest, EnergyBoundsTheTerms) {
  if constexpr (!std::is_same_v<TypeParam, None> && EnergyMap<TypeParam, double>) {
    const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
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

// Second derivatives and biases of the exponent rely on it.
TYPED_TEST(RowMapTest, TermsOfAnEnergyMapFallWithTheShift) {
  if constexpr (!std::is_same_v<TypeParam, None> && EnergyMap<TypeParam, double>) {
    const Differentiated<TypeParam> map = at_some_scalars<TypeParam>();
    for (double s : {-2.5, -0.3, 0.8, 3.0}) {
      const Terms<double> at = map.terms(s, Row<double>{.visible = 5, .shift = 3});
      const Terms<double> lower = map.terms(s, Row<double>{.visible = 5, .shift = 1.5});
      EXPECT_NEAR(at.weight, lower.weight * std::exp(-1.5), 1e-15) << s;
      EXPECT_NEAR(at.mass, lower.mass * std::exp(-1.5), 1e-15) << s;
    }
  }
}

TEST(Cog, AtAScoreOfZeroKeepsItsMassAndItsDerivative) {
  const Row<double> row{.visible = 3, .shift = 0};
  for (double zero : {0.0, -0.0}) {
    EXPECT_EQ(Cog::terms(zero, row).weight, 0);
    EXPECT_EQ(Cog::terms(zero, row).mass, 1);
    const Terms<double> derivatives = Differentiated<Cog>().terms_with_derivatives(zero, row).derivatives;
    EXPECT_EQ(derivatives.weight, 1);
    EXPECT_EQ(derivatives.mass, 0);
  }
}

// A map with θ in every function: energy, terms, its own derivatives, normaliser.
struct Tempered {
  static constexpr std::array<std::string_view, 2> parameter_names{"temperature", "floor"};

  template <class V>
  static constexpr V energy(V s, std::array<V, 2> theta) {
    return s * theta[0];
  }
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row, std::array<V, 2> theta) {
    const V mass = lane::exp(s * theta[0] - row.shift);
    return {.weight = mass * s, .mass = mass};
  }
  template <class V>
  static constexpr Terms<V> derivatives(V s, Row<V> row, std::array<V, 2> theta) {
    const V mass = lane::exp(s * theta[0] - row.shift);
    return {.weight = mass * (V(1) + s * theta[0]), .mass = mass * theta[0]};
  }
  template <class V>
  static constexpr V normalizer(V mass, Row<V>, std::array<V, 2> theta) {
    return mass + theta[1] * theta[1];
  }
};

TEST(Differentiated, TakesAMapsOwnDerivativesAndThoseOfDualsForItsScalars) {
  static_assert(EnergyMap<Tempered, double> && MapWithDerivatives<Tempered, double> && LearnableMap<Tempered>);
  const Differentiated<Tempered> map{.theta = {0.5, 3}};
  const Row<double> row{.visible = 4, .shift = 0.25};
  const double s = 1.5, mass = std::exp(s * 0.5 - 0.25);
  EXPECT_EQ(map.energy(s), 0.75);
  const auto [terms, derivatives, by_parameter] = map.terms_with_derivatives(s, row);
  EXPECT_DOUBLE_EQ(terms.weight, mass * s);
  EXPECT_DOUBLE_EQ(derivatives.weight, mass * 1.75);
  EXPECT_DOUBLE_EQ(derivatives.mass, mass * 0.5);
  EXPECT_DOUBLE_EQ(by_parameter[0].weight, mass * s * s);
  EXPECT_DOUBLE_EQ(by_parameter[0].mass, mass * s);
  EXPECT_EQ(by_parameter[1].weight, 0);
  EXPECT_EQ(by_parameter[1].mass, 0);
  const auto normalizer = map.normalizer_with_derivatives(2.0, row);
  EXPECT_EQ(normalizer.value, 11);
  EXPECT_EQ(normalizer.derivative, 1);
  EXPECT_EQ(normalizer.parameter_derivatives[0], 0);
  EXPECT_EQ(normalizer.parameter_derivatives[1], 6);
}

struct WithoutNormalizer {
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    return {s, s};
  }
};
static_assert(!RowMap<WithoutNormalizer, double>);

TEST(Differential, LambdaInitFollowsThePaper) {
  // Layers 1 to 6 by eq. 2 of the paper: 0.20, 0.36, 0.47, 0.56, 0.62, 0.67.
  const double expected[] = {0.20, 0.36, 0.47, 0.56, 0.62, 0.67};
  for (int depth = 0; depth < 6; ++depth) EXPECT_NEAR(Differential::lambda_init(depth), expected[depth], 0.006);
}

}  // namespace
}  // namespace cogwheel
