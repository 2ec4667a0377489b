#include "cogwheel/runs/training/training_run.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/training/adamw.h"
#include "cogwheel/runs/training/weight_average.h"

namespace cogwheel::runs {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The system would grant more memory than it has, and kill this process or another when the memory is used.
void expect_memory(std::int64_t parameters, bool averaged) {
  // Weight, gradient and two moments; the average of weights is a fifth.
  const double bytes_each = (averaged ? 5 : 4) * sizeof(float);
  const double needed = bytes_each * static_cast<double>(parameters);
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto gibibytes = [](double bytes) { return std::to_string(std::llround(bytes / (1 << 30))) + " GiB"; };
  if (there > 0 && needed > there)
    throw Error(expected_got("memory", gibibytes(needed) + " for " + std::to_string(parameters) + " parameters",
                             gibibytes(there)));
}

RunConfig configuration(const ModelOptions& model, const TrainingOptions& training, const Task& task) {
  RunConfig config;
  config.model = model;
  config.training = training;
  return task.completed(std::move(config));
}

at::Device device_of(const TrainingOptions& options) {
  check(options);
  const at::Device device(options.device);
  if (device.is_cpu()) return device;
  try {
    at::empty({1}, device);
  } catch (const c10::Error&) {
    throw UsageError(expected_got("training.device", "a device that this machine and its PyTorch have, such as cpu",
                                  options.device));
  }
  return device;
}

std::shared_ptr<torch::nn::Module> trainable_model(const RunConfig& config) {
  expect_trainable(config);
  const nn::PlaceParameters here(device_of(config.training));
  return make_model(config.model);
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& parameter : model.named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

// The dropout of a step: the same for every mechanism, so that runs paired by seed drop the same elements.
std::uint64_t dropout_seed(std::uint64_t seed, std::int64_t step) {
  return nn::derived_seed(seed, static_cast<std::uint64_t>(step));
}

void expect_finite(double value, std::string_view what, std::int64_t step) {
  if (!std::isfinite(value))
    throw NonFiniteLoss(
        expected_got(what, "a finite number",
                     std::string(std::isnan(value) ? "NaN" : "infinity") + " at step " + std::to_string(step)));
}

}  // namespace

void expect_trainable(const RunConfig& config) {
  ops::check_engine_choice();
  if (device_of(config.training).is_cpu()) expect_memory(parameter_count(config.model), config.training.ema > 0);
}

TrainingRun::TrainingRun(const ModelOptions& model, const TrainingOptions& training, std::shared_ptr<const Task> task)
    : task_(std::move(task)), config_(runs::configuration(model, training, *task_)), model_(trainable_model(config_)) {
  task_->initialize(*model_, config_.training.seed);
  const auto parameters = named_parameters(*model_);
  optimizer_ = std::make_unique<AdamW>(parameters, config_.training);
  if (config_.training.ema > 0) average_ = std::make_unique<WeightAverage>(parameters, config_.training.ema);
}

TrainingRun::TrainingRun(TrainingRun&&) noexcept = default;
TrainingRun& TrainingRun::operator=(TrainingRun&&) noexcept = default;
TrainingRun::~TrainingRun() = default;

double TrainingRun::step() {
  const auto start = Clock::now();
  const TrainingOptions& options = config_.training;
  const Batch batch = task_->batch(*model_, options, steps_done_);
  const at::Tensor loss = [&] {
    const nn::BFloat16Products products(options.precision == "bf16");
    return task_->loss(*model_, batch, dropout_seed(options.seed, steps_done_));
  }();
  const auto value = loss.item<double>();
  expect_finite(value, "training loss", steps_done_ + 1);
  optimizer_->zero_gradients();
  loss.backward();
  expect_finite(optimizer_->clip_gradients(), "norm of the gradient", steps_done_ + 1);
  optimizer_->step(learning_rate(options, steps_done_));
  if (average_) average_->update();
  ++steps_done_;
  tokens_ += batch.tokens;
  last_train_loss_ = value;
  loss_sum_ += value;
  ++loss_count_;
  seconds_ += seconds_since(start);
  return value;
}

MeasuredValues TrainingRun::measured(EvaluationPart part, nn::StatisticsOfHeads* heads) {
  const auto start = Clock::now();
  const torch::NoGradGuard no_grad;
  const WeightAverage::InModel averaged(average_.get());
  MeasuredValues values = task_->evaluate(*model_, config_.training, part, heads);
  evaluation_seconds_ += seconds_since(start);
  for (const Measure& measure : task_->description().measures) {
    if (const double* value = find_value(values, measure.name))
      expect_finite(*value, measure.title, steps_done_);
    else if (part == EvaluationPart::whole || !measure.at_end_only)
      throw std::logic_error(expected_got("task " + task_->description().name, "a value of " + measure.name, "none"));
  }
  return values;
}

Inspection TrainingRun::inspect(std::uint64_t seed) {
  const WeightAverage::InModel averaged(average_.get());
  return task_->inspect(*model_, seed, nullptr);
}

MeasuredValues TrainingRun::measure() { return last_measured_ = measured(EvaluationPart::whole); }

void TrainingRun::evaluate(StepReport& report) {
  const TaskDescription& description = task_->description();
  last_measured_ = report.measured = measured(EvaluationPart::curve, &report.heads);
  if (const double* value = find_value(report.measured, description.decisive().name))
    if (!best_ || description.decisive().better(*value, *best_)) best_ = *value;
  if (steps_done_ < config_.training.steps) return;
  const bool more = std::any_of(description.measures.begin(), description.measures.end(),
                                [](const Measure& measure) { return measure.at_end_only; });
  if (more || task_->data(config_.model, config_.training).curve_is_part())
    report.final_measured = last_measured_ = measured(EvaluationPart::whole);
}

StepReport TrainingRun::make_report() {
  const double recent_seconds = seconds_ - seconds_at_report_;
  const auto recent_tokens = static_cast<double>(tokens_ - tokens_at_report_);
  const StepReport report{.step = steps_done_,
                          .steps = config_.training.steps,
                          .tokens = tokens_,
                          .seconds = seconds_,
                          .train_loss = loss_sum_ / static_cast<double>(loss_count_),
                          .learning_rate = runs::learning_rate(config_.training, steps_done_ - 1),
                          .tokens_per_second = recent_seconds > 0 ? recent_tokens / recent_seconds : 0};
  loss_sum_ = 0;
  loss_count_ = 0;
  seconds_at_report_ = seconds_;
  tokens_at_report_ = tokens_;
  return report;
}

TrainingStatus TrainingRun::train(const TrainingHooks& hooks) {
  const auto due = [this](std::int64_t every) { return is_due(config_.training, every, steps_done_); };
  try {
    while (steps_done_ < config_.training.steps) {
      if (hooks.stop != nullptr && hooks.stop->load()) {
        if (hooks.checkpoint) hooks.checkpoint();
        return TrainingStatus::stopped;
      }
      step();
      const bool evaluation_due = due(config_.training.evaluate_every);
      if (evaluation_due || due(config_.training.report_every)) {
        StepReport report = make_report();
        if (evaluation_due) evaluate(report);
        if (hooks.report) hooks.report(report);
      }
      if (hooks.checkpoint && due(config_.training.checkpoint_every)) hooks.checkpoint();
    }
  } catch (const NonFiniteLoss& error) {
    problem_ = error.what();
    return TrainingStatus::non_finite;
  }
  return TrainingStatus::finished;
}

double measure_steps_per_second(const ModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Task> task, double seconds) {
  TrainingRun run(model, training, std::move(task));
  run.step();  // allocates and touches every page
  const auto start = Clock::now();
  do {
    run.step();
  } while (run.steps_done() < 3 || seconds_since(start) < seconds);
  return static_cast<double>(run.steps_done() - 1) / seconds_since(start);
}

// The least of a few steps, which other load on the machine disturbs less than their mean.
static double seconds_of_step(const ModelOptions& model, const TrainingOptions& training,
                              const std::shared_ptr<const Task>& task) {
  constexpr double limit = 0.25;
  TrainingRun run(model, training, task);
  run.step();  // allocates and touches every page
  double least = std::numeric_limits<double>::infinity();
  const auto start = Clock::now();
  do {
    const auto before = Clock::now();
    run.step();
    least = std::min(least, seconds_since(before));
  } while (run.steps_done() < 6 && seconds_since(start) < limit);
  return least;
}

double cost_of_precision(const ModelOptions& model, const TrainingOptions& training,
                         const std::shared_ptr<const Task>& task) {
  TrainingOptions standard = training;
  standard.precision = TrainingOptions().precision;
  if (training.precision == standard.precision || !device_of(training).is_cpu()) return 1;
  return seconds_of_step(model, training, task) / seconds_of_step(model, standard, task);
}

std::string precision_note(const std::string& precision, double cost) {
  constexpr double noise = 1.1;
  if (cost < noise) return "";
  return fmt::format("training.precision: steps in {} take {:.1f} times as long as in {} here, measured on a few",
                     precision, cost, TrainingOptions().precision);
}

}  // namespace cogwheel::runs
