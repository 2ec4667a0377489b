#include "cogwheel/runs/configuration/training_options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {
void check(const TrainingOptions& options) {
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("training.") + name, value, range);
  };
  constexpr Range<std::int64_t> every{0, steps_range.max};  // an interval in steps
  constexpr Range<double> moment{.min = 0, .max = 1, .max_excluded = true}, not_negative{0, 1e30};
  expect("steps", options.steps, steps_range);
  expect("batch", options.batch, batch_range);
  expect("learning_rate", options.learning_rate, learning_rate_range);
  expect("final_learning_rate", options.final_learning_rate, not_negative);
  expect("warm_up", options.warm_up, every);
  expect("beta1", options.beta1, moment);
  expect("beta2", options.beta2, moment);
  expect("epsilon", options.epsilon, learning_rate_range);
  expect("weight_decay", options.weight_decay, not_negative);
  expect("clip", options.clip, not_negative);
  expect("ema", options.ema, moment);
  if (options.precision != "fp32" && options.precision != "bf16")
    throw UsageError(
        expected_got("training.precision", expected_names(options.precision, {"fp32", "bf16"}), options.precision));
  const bool has_index = options.device.find(':') != std::string::npos;
  const std::string kind = options.device.substr(0, options.device.find(':'));
  const std::string index = has_index ? options.device.substr(kind.size() + 1) : "0";
  const bool is_number =
      !index.empty() && index.size() <= 2 && index.find_first_not_of("0123456789") == std::string::npos;
  const std::vector<std::string> devices{"cpu", "cuda", "mps", "xpu"};
  if (std::find(devices.begin(), devices.end(), kind) == devices.end() || !is_number)
    throw UsageError(expected_got(
        "training.device", expected_names(kind, devices) + ", with a number as in cuda:1 or without", options.device));
  expect("report_every", options.report_every, steps_range);
  expect("evaluate_every", options.evaluate_every, every);
  expect("curve_tokens", options.curve_tokens, Range<std::int64_t>{0, std::int64_t{1} << 40});
  expect("checkpoint_every", options.checkpoint_every, every);
}

bool is_due(const TrainingOptions& options, std::int64_t every, std::int64_t step) {
  return step == options.steps || (every > 0 && step % every == 0);
}

std::vector<std::int64_t> reported_steps(const TrainingOptions& options, std::int64_t until) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= until; ++step)
    if (is_due(options, options.report_every, step) || is_due(options, options.evaluate_every, step))
      steps.push_back(step);
  return steps;
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

}  // namespace cogwheel::runs
