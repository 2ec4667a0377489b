#include "cogwheel/train/options.h"

#include <cmath>
#include <numbers>
#include <sstream>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"

namespace cogwheel {
namespace {

void expect(bool holds, const char* name, const char* expected, double value) {
  if (holds) return;
  std::ostringstream got;
  got << value;
  throw UsageError(expected_got(std::string("training.") + name, expected, got.str()));
}

}  // namespace

void check(const TrainingOptions& options) {
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  const auto not_negative = [](double value) { return value >= 0 && std::isfinite(value); };
  const auto moment = [](double value) { return value >= 0 && value < 1; };
  expect(options.steps >= 1, "steps", "at least 1", count(options.steps));
  expect(options.batch >= 1, "batch", "at least 1", count(options.batch));
  expect(positive(options.learning_rate), "learning_rate", "above 0", options.learning_rate);
  expect(not_negative(options.final_learning_rate), "final_learning_rate", "at least 0", options.final_learning_rate);
  expect(options.warm_up >= 0, "warm_up", "at least 0", count(options.warm_up));
  expect(moment(options.beta1), "beta1", "at least 0 and below 1", options.beta1);
  expect(moment(options.beta2), "beta2", "at least 0 and below 1", options.beta2);
  expect(positive(options.epsilon), "epsilon", "above 0", options.epsilon);
  expect(not_negative(options.weight_decay), "weight_decay", "at least 0", options.weight_decay);
  expect(not_negative(options.clip), "clip", "at least 0", options.clip);
  if (options.precision != "fp32" && options.precision != "bf16")
    throw UsageError(
        expected_got("training.precision", expected_names(options.precision, {"fp32", "bf16"}), options.precision));
  expect(options.report_every >= 1, "report_every", "at least 1", count(options.report_every));
  expect(options.evaluate_every >= 0, "evaluate_every", "at least 0", count(options.evaluate_every));
  expect(options.checkpoint_every >= 0, "checkpoint_every", "at least 0", count(options.checkpoint_every));
}

double learning_rate(const TrainingOptions& options, std::int64_t step) {
  if (step < options.warm_up)
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warm_up + 1);
  if (step >= options.steps) return options.final_learning_rate;
  const double progress =
      static_cast<double>(step - options.warm_up) / static_cast<double>(options.steps - options.warm_up);
  return options.final_learning_rate +
         0.5 * (1 + std::cos(std::numbers::pi * progress)) * (options.learning_rate - options.final_learning_rate);
}

}  // namespace cogwheel
