#include "cogwheel/tasks/images/diffusion/noise_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "cogwheel/core/error.h"

namespace cogwheel::tasks::images {
namespace {

TEST(NoiseSchedule, OfSongHasItsClosedForm) {
  const NoiseSchedule schedule = NoiseSchedule::continuous();
  EXPECT_EQ(schedule.alpha(0), 1);
  EXPECT_EQ(schedule.sigma(0), 0);
  EXPECT_NEAR(schedule.alpha(1), std::exp(-0.25 * 19.9 - 0.05), 1e-15);
  EXPECT_NEAR(schedule.beta(0.5), 10.05, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.network_time(0.5), 499.5);
  EXPECT_DOUBLE_EQ(schedule.time_of_network(499.5), 0.5);
  EXPECT_EQ(schedule.steps(), 0);
  // β = −2 d log α / dt.
  for (const double t : {0.1, 0.4, 0.9})
    EXPECT_NEAR(-(schedule.log_alpha(t + 1e-5) - schedule.log_alpha(t - 1e-5)) / 1e-5, schedule.beta(t), 1e-6);
}

TEST(NoiseSchedule, OfStepsIsTheProductOfThem) {
  const NoiseSchedule linear = NoiseSchedule::linear(), scaled = NoiseSchedule::scaled_linear();
  double product = 1, scaled_product = 1;
  for (int n = 1; n <= 1000; ++n) {
    product *= 1 - (1e-4 + (0.02 - 1e-4) * (n - 1) / 999);
    const double root = std::sqrt(8.5e-4) + (std::sqrt(0.012) - std::sqrt(8.5e-4)) * (n - 1) / 999;
    scaled_product *= 1 - root * root;
    const double t = n / 1000.0;
    EXPECT_NEAR(linear.alpha(t), std::sqrt(product), 1e-12);
    EXPECT_NEAR(linear.sigma(t), std::sqrt(1 - product), 1e-12);
    EXPECT_NEAR(scaled.alpha(t), std::sqrt(scaled_product), 1e-12);
    EXPECT_NEAR(linear.network_time(t), n - 1, 1e-9);
    EXPECT_NEAR(linear.time_of_network(n - 1), t, 1e-12);
  }
  // What is published of DDPM's: ᾱ_1000 = 4.04e-5.
  EXPECT_NEAR(linear.alpha(1) * linear.alpha(1), 4.04e-5, 1e-7);
}

TEST(NoiseSchedule, BetaIsThatOfTheStepThatEnds) {
  for (const std::int64_t steps : {10, 999, 1000}) {
    const NoiseSchedule schedule = NoiseSchedule::linear(steps, 1e-4, 0.02);
    for (std::int64_t n = 1; n <= steps; ++n) {
      const double own = 1e-4 + (0.02 - 1e-4) * static_cast<double>(n - 1) / static_cast<double>(steps - 1);
      const double rate = -std::log1p(-own) * static_cast<double>(steps), t = double(n) / double(steps);
      // At its end, however that is rounded, and within it.
      for (const double at : {t, std::nextafter(t, 0), std::min(1.0, std::nextafter(t, 2)), t - 0.5 / double(steps)})
        EXPECT_NEAR(schedule.beta(at), rate, 1e-9 * rate) << n << " of " << steps;
    }
    EXPECT_EQ(schedule.beta(0), schedule.beta(1 / double(steps)));
  }
}

TEST(NoiseSchedule, TimesComeBackFromTheirLogSnr) {
  for (const NoiseSchedule& schedule :
       {NoiseSchedule::continuous(), NoiseSchedule::linear(), NoiseSchedule::scaled_linear(10)}) {
    double before = 0;
    for (double t = 1e-3; t <= 1; t += 0.0171) {
      EXPECT_NEAR(schedule.time_of_log_snr(schedule.log_snr(t)), t, 1e-9 + 1e-7 * t);
      EXPECT_GT(schedule.time_of_log_snr(schedule.log_snr(t)), before);
      before = t;
      EXPECT_NEAR(schedule.alpha(t) * schedule.alpha(t) + schedule.sigma(t) * schedule.sigma(t), 1, 1e-12);
    }
    EXPECT_EQ(schedule.time_of_log_snr(-100), 1);
    EXPECT_NEAR(schedule.time_of_log_snr(300), 0, 1e-12);
  }
}

TEST(NoiseSchedule, RefusesWhatIsNone) {
  EXPECT_THROW(NoiseSchedule::continuous(0, 20), UsageError);
  EXPECT_THROW(NoiseSchedule::linear(0), UsageError);
  EXPECT_THROW(NoiseSchedule::linear(10, 1e-4, 1), UsageError);
  EXPECT_THROW(NoiseSchedule::scaled_linear(10, std::nan("")), UsageError);
  EXPECT_THROW(NoiseSchedule::continuous().log_alpha(1.1), std::logic_error);
}

}  // namespace
}  // namespace cogwheel::tasks::images
