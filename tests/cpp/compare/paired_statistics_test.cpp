#include "cogwheel/compare/statistics/paired_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cogwheel::compare {
namespace {

// Student's own data (1908): extra sleep of ten patients under two drugs; paired t = 4.0621, p = 0.002833.
const std::vector<double> sleep{1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4};

TEST(PairedStatistics, StudentsSleepData) {
  EXPECT_NEAR(*paired_p_value(sleep), 0.0028329, 1e-7);
  const Estimate estimate = estimate_mean(sleep);
  EXPECT_NEAR(estimate.mean, 1.58, 1e-12);
  EXPECT_NEAR(estimate.mean - *estimate.interval, 0.7001142, 1e-6);
  EXPECT_NEAR(estimate.mean + *estimate.interval, 2.4598858, 1e-6);
}

TEST(PairedStatistics, OneValueHasNoIntervalAndNoP) {
  EXPECT_EQ(estimate_mean(std::vector{1.5}).mean, 1.5);
  EXPECT_FALSE(estimate_mean(std::vector{1.5}).interval);
  EXPECT_FALSE(paired_p_value(std::vector{1.5}));
  EXPECT_FALSE(paired_p_value({}));
}

// Without a spread a t test would say p = 0 of two numbers that happen to agree.
TEST(PairedStatistics, WithoutASpreadNothingIsSaidOfChance) {
  for (const double value : {0.0, -0.5, 1e-9}) {
    const std::vector<double> alike(3, value);
    EXPECT_FALSE(has_spread(alike));
    EXPECT_FALSE(paired_p_value(alike));
    EXPECT_EQ(estimate_mean(alike).mean, value);
    EXPECT_FALSE(estimate_mean(alike).interval);
  }
  // Equal but for the rounding of the numbers that they are differences of.
  const std::vector<double> rounded{0.8 - 0.7, 0.7 - 0.6};
  ASSERT_NE(rounded[0], rounded[1]);
  EXPECT_TRUE(paired_p_value(rounded));
  EXPECT_FALSE(paired_p_value(rounded, 1e-15));
  EXPECT_FALSE(estimate_mean(rounded, 0.95, 1e-15).interval);
  EXPECT_TRUE(paired_p_value(std::vector{0.1, 0.100001}, 1e-15));
}

TEST(PairedStatistics, HolmsExample) {
  const std::vector<HolmStep> steps = holm(std::vector{0.01, 0.04, 0.03, 0.005});
  EXPECT_NEAR(steps[0].p_adjusted, 0.03, 1e-15);
  EXPECT_NEAR(steps[1].p_adjusted, 0.06, 1e-15);  // max(0.03·2, 0.04·1)
  EXPECT_NEAR(steps[2].p_adjusted, 0.06, 1e-15);
  EXPECT_NEAR(steps[3].p_adjusted, 0.02, 1e-15);
  EXPECT_NEAR(steps[3].confidence, 1 - 0.05 / 4, 1e-15);
  EXPECT_NEAR(steps[0].confidence, 1 - 0.05 / 3, 1e-15);
  EXPECT_NEAR(steps[2].confidence, 1 - 0.05 / 2, 1e-15);
  EXPECT_NEAR(steps[1].confidence, 1 - 0.05 / 2, 1e-15);  // the level of the step that failed
  EXPECT_TRUE(holm({}).empty());
}

// The property that the wording of the report relies on.
TEST(PairedStatistics, IntervalExcludesZeroExactlyWhereTheAdjustedPIsSmall) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  int clear = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t comparisons = 1 + static_cast<std::size_t>(trial % 5),
                      seeds = 2 + static_cast<std::size_t>(trial % 4);
    std::vector<std::vector<double>> differences(comparisons, std::vector<double>(seeds));
    std::vector<double> p_values;
    for (auto& values : differences) {
      const double shift = 4 * normal(random);
      for (double& value : values) value = shift + normal(random);
      p_values.push_back(*paired_p_value(values));
    }
    const std::vector<HolmStep> steps = holm(p_values);
    for (std::size_t index = 0; index < comparisons; ++index) {
      const Estimate estimate = estimate_mean(differences[index], steps[index].confidence);
      const bool excludes_zero = std::abs(estimate.mean) > *estimate.interval;
      EXPECT_EQ(excludes_zero, steps[index].p_adjusted < significance_level);
      clear += excludes_zero;
    }
  }
  EXPECT_GT(clear, 500);
  EXPECT_LT(clear, 5500);
}

}  // namespace
}  // namespace cogwheel::compare
