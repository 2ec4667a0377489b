#include "cogwheel/authoring/jumps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cogwheel {
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

TEST(Jumps, KinksAndSteepSlopesAreNone) {
  EXPECT_TRUE(find_jumps([](double x) { return std::abs(x) + std::max(x, 1.0); }, -8, 8).empty());
  EXPECT_TRUE(find_jumps([](double x) { return std::exp(x) + std::tanh(1e3 * x); }, -8, 8).empty());
}

}  // namespace
}  // namespace cogwheel
