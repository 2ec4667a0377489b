#include "cogwheel/attention/authoring/card/jumps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

namespace cogwheel::authoring {
namespace {

TEST(Jumps, AreFoundWhereverTheyLie) {
  const auto jumps = find_jumps(
      [](double x) {
        return (x > 0 ? 1 : x < 0 ? -1 : 0) + (x > 2.34567 ? 1e-3 : 0);
      },
      -8, 8);
  ASSERT_EQ(jumps.size(), 2u);
  EXPECT_NEAR(jumps[0].at, 0, 1e-9);
  EXPECT_EQ(jumps[0].before, -1);
  EXPECT_EQ(jumps[0].after, 1);
  EXPECT_NEAR(jumps[1].at, 2.34567, 1e-9);
}

TEST(Jumps, KinksAndSteepDerivativesAreNone) {
  EXPECT_TRUE(find_jumps([](double x) { return std::abs(x) + std::max(x, 1.0); }, -8, 8).empty());
  EXPECT_TRUE(find_jumps([](double x) { return std::exp(x) + std::tanh(1e3 * x); }, -8, 8).empty());
}

TEST(Jumps, ArePolesWhereTheFunctionGrowsWithoutBound) {
  const std::pair<const char*, std::function<double(double)>> functions[] = {
      {"1/x", [](double x) { return 1 / x; }},
      {"1/(x - a)²", [](double x) { return 1 / ((x - 0.1234567) * (x - 0.1234567)); }},
      {"log|x - a|", [](double x) { return std::log(std::abs(x - 0.1234567)); }}};
  for (const auto& [name, function] : functions) {
    const auto poles = find_jumps(function, -1e4, 1e4);
    ASSERT_EQ(poles.size(), 1u) << name;
    EXPECT_TRUE(poles[0].is_pole) << name;
    EXPECT_NEAR(poles[0].at, name[1] == '/' && name[2] == 'x' ? 0 : 0.1234567, 1e-9) << name;
  }
}

TEST(Jumps, AreFoundFarOut) {
  const auto jumps = find_jumps([](double x) { return x > 777 ? 1 : 0; }, -1e4, 1e4);
  ASSERT_EQ(jumps.size(), 1u);
  EXPECT_NEAR(jumps[0].at, 777, 1e-9);
}

}  // namespace
}  // namespace cogwheel::authoring
