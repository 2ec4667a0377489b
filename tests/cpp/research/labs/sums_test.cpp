#include "cogwheel/research/labs/sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cogwheel/research/labs/draws.h"

namespace cogwheel::labs {
namespace {

TEST(Sums, DotOfAnyWidth) {
  for (std::int64_t width = 0; width < 20; ++width) {
    std::vector<double> left, right;
    double expected = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      left.push_back(static_cast<double>(i + 1)), right.push_back(static_cast<double>(2 * i - 3));
      expected += left.back() * right.back();
    }
    EXPECT_EQ(dot(left.data(), right.data(), width), expected);
  }
}

TEST(Sums, LineThroughPoints) {
  const StraightLine line = fit_line({1, 2, 4}, {5, 3, -1});
  EXPECT_NEAR(line.slope, -2, 1e-14);
  EXPECT_NEAR(line.offset, 7, 1e-14);
  // A point without weight does nothing.
  EXPECT_NEAR(fit_line({1, 2, 4, 5}, {5, 3, -1, 100}, {1, 2, 1, 0}).slope, -2, 1e-14);
}

TEST(Sums, MeanWithItsError) {
  const Mean mean = mean_of({1, 2, 3, 6});
  EXPECT_DOUBLE_EQ(mean.value, 3);
  EXPECT_DOUBLE_EQ(mean.error, std::sqrt(14. / 3 / 4));
  EXPECT_EQ(mean_of({5}).error, 0);
}

TEST(Draws, AreNormalAndEachStreamIsItsOwn) {
  Draws draws(1, 0);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const double value = draws.normal();
    sum += value, squares += value * value, fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / count, 0, 0.015);
  EXPECT_NEAR(squares / count, 1, 0.02);
  EXPECT_NEAR(fourth / count, 3, 0.15);
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t part = 0; part < 10; ++part) first.insert(Draws(seed, part).bits());
  EXPECT_EQ(first.size(), 100);
}

}  // namespace
}  // namespace cogwheel::labs
