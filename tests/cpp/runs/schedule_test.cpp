#include <gtest/gtest.h>

#include <cmath>

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

TEST(LearningRate, FallsAlongALineOrOnlyAtTheEnd) {
  TrainingOptions options{
      .steps = 300, .learning_rate = 1e-3, .final_learning_rate = 1e-4, .schedule = "linear", .warm_up = 100};
  EXPECT_DOUBLE_EQ(learning_rate(options, 49), 1e-3 * 50 / 101);
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(options, 150), 1e-4 + 0.75 * 9e-4);
  options.schedule = "wsd", options.decay = 0.25;
  EXPECT_DOUBLE_EQ(learning_rate(options, 49), 1e-3 * 50 / 101);
  for (const std::int64_t step : {100, 150, 225}) EXPECT_DOUBLE_EQ(learning_rate(options, step), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(options, 244), 1e-4 + (1 - std::sqrt(19.0 / 75)) * 9e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 300), 1e-4);
  options.decay = 1;  // never before the warm-up ends
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 1e-3);
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
  refused({.batch = 12, .micro_batches = 3},
          "training.micro_batches: expected a power of two up to training.batch, 12, got 3");
  refused({.batch = 12, .micro_batches = 16},
          "training.micro_batches: expected a power of two up to training.batch, 12, got 16");
  refused({.optimizer = "adam"}, "training.optimizer: expected adamw (the nearest of 2 names), got adam");
  refused({.schedule = "step"}, "training.schedule: expected one of cosine, linear, wsd, got step");
  refused({.decay = 0}, "training.decay: expected above 0, got 0");
  refused({.keep_checkpoints = 0}, "training.keep_checkpoints: expected at least 1, got 0");
  refused({.sample_every = 5},
          "training.prompts: expected texts to continue, as training.sample_every is above 0, got none");
  refused({.batch = -2}, "training.batch: expected at least 1, got -2");
  refused({.learning_rate = 0}, "training.learning_rate: expected above 0, got 0");
  refused({.beta2 = 1}, "training.beta2: expected at least 0 and below 1, got 1");
  refused({.clip = -1}, "training.clip: expected at least 0, got -1");
}

}  // namespace
}  // namespace cogwheel::runs
