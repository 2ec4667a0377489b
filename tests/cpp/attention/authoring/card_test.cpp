// The cards of broken, unusual and built-in maps: the part that runs no kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/attention/authoring/derivatives_check.h"
#include "cogwheel/attention/mechanisms/pairwise/cog.h"
#include "cogwheel/attention/mechanisms/pairwise/consmax.h"
#include "cogwheel/attention/mechanisms/pairwise/relu.h"
#include "cogwheel/core/error.h"
#include "map_under_test.h"

namespace cogwheel::authoring {
namespace {

#define PLAIN_MAP(Name, f, g, n)                                     \
  struct Name {                                                      \
    static constexpr Description description = described("it");      \
    template <class V>                                               \
    static constexpr Terms<V> terms([[maybe_unused]] V s, Row<V>) {  \
      return {.weight = f, .mass = g};                               \
    }                                                                \
    template <class V>                                               \
    static constexpr V normalizer([[maybe_unused]] V mass, Row<V>) { \
      return n;                                                      \
    }                                                                \
  };

PLAIN_MAP(Infinite, lane::constant<V>(1) / V(0) * s, V(1), V(64))
PLAIN_MAP(UndefinedAtZero, s* lane::log(lane::abs(s)), V(0), V(1))
PLAIN_MAP(Sinc, lane::sin(s) / s, V(0), V(1))
PLAIN_MAP(Reciprocal, V(1) / s, V(0), V(1))
PLAIN_MAP(RootAtZero, lane::sqrt(lane::abs(s)), V(0), V(1))
PLAIN_MAP(PoleBetween, V(1) / lane::square(s - lane::constant<V>(0.1234567)), V(0), V(1))
PLAIN_MAP(DividedBySums, s, lane::abs(s), mass)
PLAIN_MAP(TooSteep, lane::exp(lane::exp(s)), V(0), V(1))
PLAIN_MAP(OverflowsToNothing, lane::exp(s) / (V(1) + lane::exp(s)), V(0), V(1))
PLAIN_MAP(InfiniteFarOut, lane::select(s > V(50), lane::constant<V>(1) / V(0), s), V(1), V(64))
PLAIN_MAP(OverflowsOnTheWay, lane::sqrt(V(1) + lane::square(lane::square(lane::square(lane::square(s))))), V(0), V(1))
PLAIN_MAP(Cubed, lane::cube(s), V(0), V(1))
PLAIN_MAP(Zero, V(0) * s, V(0), V(1))
PLAIN_MAP(Tiny, lane::constant<V>(1e-20) * s, V(0), V(1))
PLAIN_MAP(JumpsFarOut, lane::select(s > V(20), V(1), V(0)), V(0), V(1))
PLAIN_MAP(MassJumps, s, lane::select(s > V(0), V(2), V(1)), mass)
PLAIN_MAP(AsSteepAsAJump, lane::tanh(lane::constant<V>(1e9) * s), V(0), V(1))

struct WrongFarOut {
  static constexpr Description description = described("it");
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>) {
    return {.weight = lane::square(s), .mass = V(0)};
  }
  template <class V>
  static constexpr Terms<V> derivatives(V s, Row<V>) {
    return {.weight = V(2) * lane::select(s > V(20), V(20), s), .mass = V(0)};
  }
  template <class V>
  static constexpr V normalizer(V, Row<V>) {
    return V(1);
  }
};

struct Unbounded : NormalizedByMass {
  static constexpr Description description = described("it");
  template <class V>
  static constexpr V energy(V s) {
    return s;
  }
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V> row) {
    return {.weight = lane::exp(V(2) * s - row.shift), .mass = lane::exp(s - row.shift)};
  }
};

struct WithoutDefaults : NormalizedByMass {
  static constexpr Description description = described("it");
  static constexpr std::array<std::string_view, 2> parameter_names{"tau", "place"};
  template <class V>
  static constexpr Terms<V> terms(V s, Row<V>, std::array<V, 2> theta) {
    return {.weight = theta[0] * lane::sqrt(lane::abs(s - theta[1])), .mass = lane::square(s) + V(1)};
  }
};

template <class Map>
std::string problem() {
  const NumericsCard card = card_of_functions<Map>();
  return card.problems.empty() ? "none" : card.problems.front();
}

TEST(Card, NamesTheScoreAtWhichAMapIsNoNumber) {
  EXPECT_EQ(problem<Infinite>(), "it: f at s = 1e-30: expected finite numbers for |s| up to 10, got inf");
  EXPECT_EQ(problem<UndefinedAtZero>(), "it: f at s = 0: expected a finite number, got NaN");
  EXPECT_EQ(problem<Sinc>(), "it: f at s = 0: expected a finite number, got NaN");
  EXPECT_EQ(problem<Reciprocal>(), "it: f at s = 0: expected a finite number, got inf");
  EXPECT_EQ(problem<RootAtZero>(), "it: derivative of f at s = 0: expected a finite number, got NaN");
  EXPECT_EQ(problem<PoleBetween>(),
            "it: f near s = 0.123: expected finite numbers, got a pole: it grows without bound");
  EXPECT_EQ(problem<DividedBySums>(),
            "it: weights of a row of one score of 0: expected finite numbers, got NaN: N is 0, and in 3 more of the "
            "rows tried");
  EXPECT_EQ(problem<TooSteep>(),
            "it: derivative of f at s = 4.43 in fp32: expected finite numbers for |s| up to 10, got inf");
  EXPECT_EQ(problem<OverflowsToNothing>(),
            "it: f at s = 89 in fp32: expected a finite number, got NaN, and at 23 more of the scores tried");
  EXPECT_EQ(problem<InfiniteFarOut>(), "it: f at s = 50: expected a finite number, got inf");
  EXPECT_EQ(problem<OverflowsOnTheWay>(), "it: f at s = 256 in fp32: expected a finite number, got inf");
  EXPECT_EQ(problem<Unbounded>().substr(0, 46), "it: f at s = 89 in fp32: expected a finite num");
  EXPECT_EQ(problem<WithoutDefaults>(), "it: derivative of f at s = 1: expected a finite number, got NaN");
}

TEST(Card, NamesAWrongDerivativeHoweverFarOut) {
  const NumericsCard card = card_of_functions<WrongFarOut>();
  EXPECT_EQ(fact(card, "derivatives"), "disagree with finite differences");
  ASSERT_EQ(card.problems.size(), 1u);
  EXPECT_EQ(card.problems[0].find("it: derivative of f at s = 2"), 0u) << card.problems[0];
}

TEST(Card, SaysOfOddMapsWhatIsTrue) {
  const NumericsCard tiny = card_of_functions<Tiny>(), zero = card_of_functions<Zero>();
  EXPECT_EQ(fact(tiny, "weights seen").find("[-3."), 0u) << fact(tiny, "weights seen");
  EXPECT_EQ(fact(zero, "weights seen"), "0");
  EXPECT_EQ(fact(zero, "row sums"), "Σa 0, Σ|a| 0");
  for (const NumericsCard& card : {tiny, zero, card_of_functions<Cubed>()}) {
    EXPECT_TRUE(card.problems.empty());
    EXPECT_EQ(fact(card, "jumps"), "none");
    EXPECT_EQ(fact(card, "overflow"), "none up to scores of ±1e4, without an energy");
  }
  EXPECT_EQ(fact(card_of_functions<Reciprocal>(), "jumps"), "f has a pole at s = 0");
  EXPECT_EQ(fact(card_of_functions<JumpsFarOut>(), "jumps"), "f jumps at s = 20, from 0 to 1");
  EXPECT_EQ(fact(card_of_functions<WithoutDefaults>(), "parameters"), "scalar 1 = 1, scalar 2 = 1");
}

template <class Map>
bool moves_at_zero() {
  const MapUnderTest<Map> map;
  NumericsCard card;
  return measure_functions(map.measured, "", card).moves_at_zero;
}

TEST(Card, KnowsWhereAFlippedSignMatters) {
  EXPECT_TRUE(moves_at_zero<MassJumps>());
  EXPECT_TRUE(moves_at_zero<AsSteepAsAJump>());
  EXPECT_FALSE(moves_at_zero<JumpsFarOut>());
  EXPECT_FALSE(moves_at_zero<Cubed>());
}

TEST(Card, RaisesNoFalseAlarmOverBuiltInMaps) {
  const NumericsCard cog = card_of_functions<Cog>(), relu = card_of_functions<Relu>();
  EXPECT_TRUE(cog.problems.empty());
  EXPECT_EQ(fact(cog, "derivatives"),
            "agree with finite differences for |s| up to 1e4; at 0, where there are none, f′ = 1, g′ = 0");
  EXPECT_EQ(fact(cog, "jumps"), "f jumps at s = 0, from -1 to 1");
  EXPECT_TRUE(relu.problems.empty());
  EXPECT_EQ(fact(relu, "derivatives"),
            "agree with finite differences for |s| up to 1e4; at 0, where there are none, f′ = 0, g′ = 0");
}

TEST(Card, DocumentsTheRangeOfAMapWithoutAnEnergy) {
  const NumericsCard card = card_of_functions<ConSmax>();
  EXPECT_TRUE(card.problems.empty());
  EXPECT_EQ(fact(card, "overflow"), "fp32 above s = 88.7: there is no energy");
}

TEST(CompareDerivative, SettlesNothingWhereDifferencesCannot) {
  const auto agreement = [](auto function, auto derivative, double at) {
    return compare_derivative(function, derivative, at).agreement;
  };
  const auto exp = [](double x) { return std::exp(x); };
  EXPECT_EQ(agreement(exp, exp, 3.0), Agreement::same);
  EXPECT_EQ(agreement(
                exp, [](double x) { return 1.0001 * std::exp(x); }, 3.0),
            Agreement::other);
  EXPECT_EQ(agreement([](double x) { return std::abs(x); }, [](double) { return 0.3; }, 0.0), Agreement::unknown);
  // A ripple that only steps of 1e-10 would see: its derivative is as large as that of the rest.
  for (const double at : {6582.78, 24.038615254292196, -208.16583193196089})
    EXPECT_NE(agreement([](double x) { return x + 1e-9 * std::sin(1e9 * x); },
                        [](double x) { return 1 + std::cos(1e9 * x); }, at),
              Agreement::other);
  // Numbers so small that they lose digits.
  EXPECT_NE(agreement([](double x) { return std::exp(2 * x); }, [](double x) { return 2 * std::exp(2 * x); }, -370.177),
            Agreement::other);
}

}  // namespace
}  // namespace cogwheel::authoring
