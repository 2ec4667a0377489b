#include "cogwheel/train/training_run.h"

#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "cogwheel/data/windows.h"
#include "cogwheel/models/language_model.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/head_observer.h"
#include "cogwheel/nn/matrix_product.h"
#include "cogwheel/train/adamw.h"

namespace cogwheel {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The system would promise more than there is, and kill this process or another when it is used.
void expect_memory(const LanguageModelOptions& model) {
  constexpr double bytes_each = 4 * sizeof(float);  // weight, gradient and two moments
  const double needed = bytes_each * static_cast<double>(parameter_count(model));
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto gibibytes = [](double bytes) { return std::to_string(std::llround(bytes / (1 << 30))) + " GiB"; };
  if (there > 0 && needed > there)
    throw Error(expected_got("memory",
                             gibibytes(needed) + " for " + std::to_string(parameter_count(model)) + " parameters",
                             gibibytes(there)));
}

LanguageModelOptions with_vocabulary(LanguageModelOptions model, const Dataset& data) {
  const std::int64_t vocabulary = data.tokenizer->vocabulary();
  if (model.vocabulary != 0 && model.vocabulary != vocabulary)
    throw UsageError(expected_got("model.vocabulary", std::to_string(vocabulary) + ", as the tokenizer",
                                  std::to_string(model.vocabulary)));
  model.vocabulary = vocabulary;
  check(model);
  expect_memory(model);
  return model;
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(const LanguageModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& parameter : model->named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

// Of a step: the same for every mechanism, so that runs which are paired by seed drop the same elements.
std::uint64_t dropout_seed(std::uint64_t seed, std::int64_t step) {
  return derived_seed(seed, static_cast<std::uint64_t>(step));
}

// Tokens, whatever the training batch: sums are then in one order for every run.
constexpr std::int64_t evaluated_at_once = 4096;

void expect_finite(double value, const char* what, std::int64_t step) {
  if (!std::isfinite(value))
    throw NonFiniteLoss(
        expected_got(what, "a finite number",
                     std::string(std::isnan(value) ? "NaN" : "infinity") + " at step " + std::to_string(step)));
}

}  // namespace

TrainingRun::TrainingRun(LanguageModelOptions model, const TrainingOptions& training,
                         std::shared_ptr<const Dataset> data)
    : data_(std::move(data)),
      options_(training),
      model_(std::make_unique<LanguageModel>(with_vocabulary(std::move(model), *data_))) {
  check(options_);
  (*model_)->initialize(options_.seed);
  optimizer_ = std::make_unique<AdamW>(named_parameters(*model_), options_);
}

TrainingRun::TrainingRun(TrainingRun&&) noexcept = default;
TrainingRun& TrainingRun::operator=(TrainingRun&&) noexcept = default;
TrainingRun::~TrainingRun() = default;

std::int64_t TrainingRun::tokens() const { return steps_done_ * options_.batch * model()->options().context; }

double TrainingRun::step() {
  const auto start = Clock::now();
  const Windows windows =
      training_windows(*data_, model()->options().context, options_.batch, options_.seed, steps_done_);
  const at::Tensor loss = [&] {
    const BFloat16Products products(options_.precision == "bf16");
    return model()->loss(windows.inputs, windows.targets,
                         {.dropout = model()->dropout(dropout_seed(options_.seed, steps_done_))});
  }();
  const auto value = loss.item<double>();
  expect_finite(value, "training loss", steps_done_ + 1);
  optimizer_->zero_gradients();
  loss.backward();
  expect_finite(optimizer_->clip_gradients(), "norm of the gradient", steps_done_ + 1);
  optimizer_->step(learning_rate(options_, steps_done_));
  ++steps_done_;
  last_train_loss_ = value;
  loss_sum_ += value;
  ++loss_count_;
  seconds_ += seconds_since(start);
  return value;
}

double TrainingRun::mean_loss(const Windows& windows, StatisticsOfHeads* heads) {
  const auto start = Clock::now();
  const torch::NoGradGuard no_grad;
  const std::int64_t count = windows.inputs.size(0);
  const std::int64_t batch = std::max<std::int64_t>(1, evaluated_at_once / windows.inputs.size(1));
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += batch) {
    const std::int64_t last = std::min(first + batch, count);
    const at::Tensor inputs = windows.inputs.slice(0, first, last), targets = windows.targets.slice(0, first, last);
    Tap tap;
    std::optional<HeadObserver> observer;
    if (heads != nullptr && first == 0) observer.emplace(tap);
    const at::Tensor loss = model()->loss(inputs, targets, {.tap = observer ? &tap : nullptr});
    if (observer) *heads = observer->statistics();
    sum += loss.item<double>() * static_cast<double>(last - first);
  }
  evaluation_seconds_ += seconds_since(start);
  const double mean = sum / static_cast<double>(count);
  expect_finite(mean, "held-out loss", steps_done_);
  return mean;
}

double TrainingRun::held_out_loss() {
  last_held_out_loss_ = mean_loss(held_out_windows(*data_, model()->options().context));
  return *last_held_out_loss_;
}

void TrainingRun::evaluate(StepReport& report) {
  const std::int64_t context = model()->options().context;
  const Windows windows = held_out_windows(*data_, context, options_.curve_tokens);
  last_held_out_loss_ = report.held_out_loss = mean_loss(windows, &report.heads);
  best_held_out_loss_ = std::min(*report.held_out_loss, best_held_out_loss_.value_or(*report.held_out_loss));
  if (steps_done_ < options_.steps) return;
  const Windows all = held_out_windows(*data_, context);
  if (all.inputs.size(0) > windows.inputs.size(0)) report.final_held_out_loss = last_held_out_loss_ = mean_loss(all);
}

StepReport TrainingRun::make_report() {
  const double recent_seconds = seconds_ - seconds_at_report_;
  const double recent_tokens = static_cast<double>(loss_count_ * options_.batch * model()->options().context);
  const StepReport report{.step = steps_done_,
                          .steps = options_.steps,
                          .tokens = tokens(),
                          .seconds = seconds_,
                          .train_loss = loss_sum_ / static_cast<double>(loss_count_),
                          .learning_rate = cogwheel::learning_rate(options_, steps_done_ - 1),
                          .tokens_per_second = recent_seconds > 0 ? recent_tokens / recent_seconds : 0,
                          .held_out_loss = {}};
  loss_sum_ = 0;
  loss_count_ = 0;
  seconds_at_report_ = seconds_;
  return report;
}

TrainingStatus TrainingRun::train(const TrainingHooks& hooks) {
  const auto due = [this](std::int64_t every) { return is_due(options_, every, steps_done_); };
  try {
    while (steps_done_ < options_.steps) {
      if (hooks.stop != nullptr && hooks.stop->load()) {
        if (hooks.checkpoint) hooks.checkpoint();
        return TrainingStatus::stopped;
      }
      step();
      const bool evaluation_due = due(options_.evaluate_every);
      if (evaluation_due || due(options_.report_every)) {
        StepReport report = make_report();
        if (evaluation_due) evaluate(report);
        if (hooks.report) hooks.report(report);
      }
      if (hooks.checkpoint && due(options_.checkpoint_every)) hooks.checkpoint();
    }
  } catch (const NonFiniteLoss& error) {
    problem_ = error.what();
    return TrainingStatus::non_finite;
  }
  return TrainingStatus::finished;
}

double measure_steps_per_second(const LanguageModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Dataset> data, double seconds) {
  TrainingRun run(model, training, std::move(data));
  run.step();  // allocates and touches every page
  const auto start = Clock::now();
  do {
    run.step();
  } while (run.steps_done() < 3 || seconds_since(start) < seconds);
  return static_cast<double>(run.steps_done() - 1) / seconds_since(start);
}

}  // namespace cogwheel
