#include <gtest/gtest.h>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/training_options.h"

namespace cogwheel::runs {
namespace {

TEST(LearningRate, WarmsUpAndFallsAlongAHalfCosine) {
  const TrainingOptions options{.steps = 300, .learning_rate = 1e-3, .final_learning_rate = 1e-4, .warm_up = 100};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(options, 49), 1e-3 * 50 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(options, 200), 5.5e-4);  // half way
  EXPECT_NEAR(learning_rate(options, 150), 1e-4 + 0.85355339059 * 9e-4, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(options, 300), 1e-4);
  for (std::int64_t step = 101; step < 300; ++step)
    EXPECT_LT(learning_rate(options, step), learning_rate(options, step - 1));
}

TEST(LearningRate, CopesWithoutWarmUpAndWithNothingElse) {
  EXPECT_DOUBLE_EQ(learning_rate({.steps = 10, .learning_rate = 2.0, .warm_up = 0}, 0), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate({.steps = 5, .learning_rate = 2.0, .warm_up = 10}, 4), 2.0 * 5 / 11);
}

TEST(TrainingOptions, AreChecked) {
  EXPECT_NO_THROW(check(TrainingOptions{}));
  const auto refused = [](const TrainingOptions& options, const std::string& message) {
    try {
      check(options);
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), message);
    }
  };
  refused({.steps = 0}, "training.steps: expected at least 1, got 0");
  refused({.batch = -2}, "training.batch: expected at least 1, got -2");
  refused({.learning_rate = 0}, "training.learning_rate: expected above 0, got 0");
  refused({.beta2 = 1}, "training.beta2: expected at least 0 and below 1, got 1");
  refused({.clip = -1}, "training.clip: expected at least 0, got -1");
}

}  // namespace
}  // namespace cogwheel::runs
