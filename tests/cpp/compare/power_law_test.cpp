// The fit and its intervals on planted data.
#include "cogwheel/compare/statistics/power_law.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/compare/statistics/seed_bootstrap.h"
#include "cogwheel/compare/statistics/student_t.h"
#include "cogwheel/core/random.h"

namespace cogwheel::compare::power_law_test {
namespace {

const std::vector<double> three{5e4, 2e5, 8e5}, five{5e4, 1e5, 2e5, 4e5, 8e5};

std::vector<double> values_of(const PowerLaw& law, const std::vector<double>& sizes) {
  std::vector<double> values;
  for (const double size : sizes) values.push_back(law.at(size));
  return values;
}

TEST(PowerLaw, IsFoundAgain) {
  for (const auto& sizes : {three, five})
    for (const PowerLaw law : {PowerLaw{1.4, 30, 0.34}, PowerLaw{0.2, 8, 0.1}, PowerLaw{2, 4e4, 1}}) {
      const PowerLaw found = PowerLawFit(sizes)(values_of(law, sizes));
      EXPECT_NEAR(found.exponent, law.exponent, 1e-3 * law.exponent);
      EXPECT_NEAR(found.limit, law.limit, 2e-3);
      EXPECT_NEAR(found.factor / law.factor, 1, 0.01);
      for (const double size : sizes) EXPECT_NEAR(found.at(size), law.at(size), 1e-6);
    }
}

// What has no bend the fit says by an exponent at its edge; what would have a limit that cannot be has the least.
TEST(PowerLaw, StaysWithinWhatItTries) {
  EXPECT_EQ(PowerLawFit(three)(std::vector<double>{3.0, 2.0, 0.9}).exponent, smallest_exponent);
  EXPECT_EQ(PowerLawFit(three)(std::vector<double>{3.0, 2.0, 2.0}).exponent, largest_exponent);
  const PowerLaw bounded = PowerLawFit(three, 0.0)(std::vector<double>{3.0, 2.0, 1.3});
  EXPECT_EQ(bounded.limit, 0);
  EXPECT_NEAR(bounded.at(2e5), 2, 0.05);
  EXPECT_LT(PowerLawFit(three)(std::vector<double>{3.0, 2.0, 1.3}).limit, 0);
}

TEST(SeedBootstrap, OfAMeanIsItsTInterval) {
  const std::vector<double> values{1.2, 1.5, 1.1, 1.4};
  const double mean = 1.3, error = std::sqrt((0.01 + 0.04 + 0.04 + 0.01) / 3 / 4);
  std::vector<double> draws;
  for (std::int64_t draw = 0; draw < 20'000; ++draw) {
    const std::vector<double> weights = seed_weights(4, 7, draw);
    double drawn = mean;
    for (std::size_t seed = 0; seed < 4; ++seed) drawn += weights[seed] * (values[seed] - mean);
    draws.push_back(drawn);
  }
  const DrawnInterval interval = interval_of_draws(draws, 0.95);
  const double half = student_t_quantile(0.95, 3) * error;
  EXPECT_NEAR(interval.low, mean - half, 0.05 * half);
  EXPECT_NEAR(interval.high, mean + half, 0.05 * half);
  EXPECT_EQ(seed_weights(4, 7, 3), seed_weights(4, 7, 3));
  EXPECT_NE(seed_weights(4, 7, 3), seed_weights(4, 7, 4));
  EXPECT_NE(seed_weights(4, 7, 3), seed_weights(4, 8, 3));
}

// 2,000 planted comparisons at three widths: how many intervals of 95 % hold what was planted. A part of the scatter is
// the seed's, at every width, as runs that share their data have it.
struct Coverage {
  double limit = 0, exponent = 0;
};

Coverage coverage(std::int64_t seeds) {
  const PowerLaw law{1.4, 30, 0.34};
  const PowerLawFit fit(three, 0.0);
  const std::vector<double> planted = values_of(law, three);
  constexpr std::int64_t repetitions = 2000, draws = 300;
  Coverage held;
  for (std::int64_t repetition = 0; repetition < repetitions; ++repetition) {
    NumberedDraws noise(1, stream_named("test"), static_cast<std::uint64_t>(repetition));
    std::vector<std::vector<double>> values;
    std::vector<double> mean(three.size());
    for (std::int64_t seed = 0; seed < seeds; ++seed) {
      const double shared = 0.005 * noise.normal();
      values.emplace_back();
      for (std::size_t width = 0; width < three.size(); ++width) {
        values.back().push_back(planted[width] + shared + 0.004 * noise.normal());
        mean[width] += values.back().back() / static_cast<double>(seeds);
      }
    }
    std::vector<double> limits, exponents;
    for (std::int64_t draw = 0; draw < draws; ++draw) {
      const std::vector<double> weights = seed_weights(seeds, static_cast<std::uint64_t>(repetition), draw);
      std::vector<double> drawn = mean;
      for (std::size_t seed = 0; seed < values.size(); ++seed)
        for (std::size_t width = 0; width < mean.size(); ++width)
          drawn[width] += weights[seed] * (values[seed][width] - mean[width]);
      const PowerLaw of_draw = fit(drawn);
      limits.push_back(of_draw.limit);
      exponents.push_back(of_draw.exponent);
    }
    const auto holds = [](std::vector<double> of, double value) {
      const DrawnInterval interval = interval_of_draws(std::move(of), 0.95);
      return interval.low <= value && value <= interval.high ? 1.0 / repetitions : 0;
    };
    held.limit += holds(std::move(limits), law.limit);
    held.exponent += holds(std::move(exponents), law.exponent);
  }
  return held;
}

TEST(SeedBootstrap, HoldsWhatWasPlanted) {
  for (const std::int64_t seeds : {3, 5}) {
    const Coverage held = coverage(seeds);
    printf("seeds %ld: %.4f %.4f\n", seeds, held.limit, held.exponent);
    for (const double share : {held.limit, held.exponent}) {
      EXPECT_GE(share, 0.93) << seeds;
      EXPECT_LE(share, 0.98) << seeds;
    }
  }
}

}  // namespace
}  // namespace cogwheel::compare::power_law_test
