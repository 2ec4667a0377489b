#include "cogwheel/runs/configuration/training_options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/nn/weights/device_name.h"

namespace cogwheel::runs {

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"adamw", "muon"};
  return names;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"cosine", "linear", "wsd"};
  return names;
}

void check(const TrainingOptions& options) {
  const auto expect = [](const char* name, auto value, const auto& range) {
    expect_within(std::string("training.") + name, value, range);
  };
  constexpr Range<std::int64_t> every{0, steps_range.max};  // an interval in steps
  constexpr Range<double> moment{.min = 0, .max = 1, .max_excluded = true}, not_negative{0, 1e30};
  expect("steps", options.steps, steps_range);
  expect("batch", options.batch, batch_range);
  expect("micro_batches", options.micro_batches, micro_batches_range);
  if ((options.micro_batches & (options.micro_batches - 1)) != 0 || options.micro_batches > options.batch)
    throw UsageError(expected_got("training.micro_batches",
                                  "a power of two up to training.batch, " + std::to_string(options.batch),
                                  std::to_string(options.micro_batches)));
  expect_within("parallel.context", options.parallel_context, parallel_range);
  expect_within("parallel.tensor", options.parallel_tensor, parallel_range);
  if ((options.parallel_context & (options.parallel_context - 1)) != 0)
    throw UsageError(expected_got("parallel.context", "a power of two", std::to_string(options.parallel_context)));
  expect("recompute", options.recompute, Range<std::int64_t>{0, 10'000});
  const auto expect_name = [](const std::string& name, const std::string& value,
                              const std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), value) == names.end())
      throw UsageError(expected_got("training." + name, expected_names(value, names), value));
  };
  expect_name("optimizer", options.optimizer, optimizer_names());
  expect_name("schedule", options.schedule, schedule_names());
  expect("decay", options.decay, Range<double>{.min = 0, .max = 1, .min_excluded = true});
  expect("momentum", options.momentum, moment);
  expect("learning_rate", options.learning_rate, learning_rate_range);
  expect("final_learning_rate", options.final_learning_rate, not_negative);
  expect("warm_up", options.warm_up, every);
  expect("beta1", options.beta1, moment);
  expect("beta2", options.beta2, moment);
  expect("epsilon", options.epsilon, learning_rate_range);
  expect("weight_decay", options.weight_decay, not_negative);
  expect("base_width", options.base_width, base_width_range);
  if (options.base_width != 0 && options.optimizer != "adamw")
    throw UsageError(expected_got("training.base_width", "0 with training.optimizer = " + options.optimizer,
                                  std::to_string(options.base_width)));
  if (options.parallel_divide_moments && (options.optimizer != "adamw" || options.parallel_tensor > 1))
    throw UsageError(expected_got("parallel.divide_moments",
                                  options.parallel_tensor > 1
                                      ? "false with parallel.tensor, whose ranks divide moments with the weights"
                                      : "false with training.optimizer = " + options.optimizer,
                                  "true"));
  expect("clip", options.clip, not_negative);
  expect("ema", options.ema, moment);
  expect_name("precision", options.precision, {"fp32", "bf16"});
  nn::expect_device_name("training.device", options.device);
  expect("report_every", options.report_every, steps_range);
  expect("evaluate_every", options.evaluate_every, every);
  expect("curve_tokens", options.curve_tokens, Range<std::int64_t>{0, std::int64_t{1} << 40});
  expect("checkpoint_every", options.checkpoint_every, every);
  expect("checkpoint_minutes", options.checkpoint_minutes, Range<double>{0, 1e6});
  expect("keep_checkpoints", options.keep_checkpoints, kept_range);
  expect("sample_every", options.sample_every, every);
  if (options.sample_every > 0 && options.prompts.empty())
    throw UsageError(
        expected_got("training.prompts", "texts to continue, as training.sample_every is above 0", "none"));
  expect("spike_deviations", options.spike_deviations, not_negative);
  expect("spike_returns", options.spike_returns, Range<std::int64_t>{0, 1'000'000});
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
  const auto progress_from = [&](double first) {
    return std::max(0.0, (static_cast<double>(step) - first) / (static_cast<double>(options.steps) - first));
  };
  double left = 0;  // of the way down
  if (options.schedule == "wsd") {
    const auto steps = static_cast<double>(options.steps);
    left = 1 - std::sqrt(progress_from(std::max(static_cast<double>(options.warm_up), steps * (1 - options.decay))));
  } else {
    const double progress = progress_from(static_cast<double>(options.warm_up));
    left = options.schedule == "linear" ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return options.final_learning_rate + left * (options.learning_rate - options.final_learning_rate);
}

}  // namespace cogwheel::runs
