#include "cogwheel/compare/run_maker.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/inspection_json.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/peak_memory.h"
#include "cogwheel/runs/training/train_in_folder.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::compare {
namespace fs = std::filesystem;
namespace {

// One point per evaluation; the training loss is the mean over the steps since the previous point, of a phase with a
// loss of its own none.
std::vector<CurvePoint> curve_of(const std::vector<runs::StepReport>& reports) {
  std::vector<CurvePoint> curve;
  double sum = 0;
  std::int64_t steps = 0, last = 0;
  for (const runs::StepReport& report : reports) {
    if (report.phase.empty()) {
      sum += report.train_loss * static_cast<double>(report.step - last);
      steps += report.step - last;
    }
    last = report.step;
    if (report.measured.empty()) continue;
    curve.push_back({.step = report.step,
                     .train_loss = steps > 0 ? std::optional(sum / static_cast<double>(steps)) : std::nullopt,
                     .measured = report.measured,
                     .heads = report.heads});
    sum = 0;
    steps = 0;
  }
  return curve;
}

// What the work threw, in one line; empty if nothing. One run or trial that fails does not end the others, but a full
// disk does, on which they would fail alike, and no run is to blame for it.
template <class Work>
std::string problem_of(const Work& work) {
  const auto said = [](const std::string& text) { return text.empty() ? std::string("unknown problem") : text; };
  try {
    work();
  } catch (const WriteError&) {
    throw;
  } catch (const c10::Error& error) {
    return said(one_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return said(one_line(error.what()));
  }
  return "";
}

constexpr const char* waited_in_vain = "stopped while another process was training it";

std::string waiting_line(const std::string& mechanism, std::int64_t seed) {
  return fmt::format("  {}: another process trains it; waiting", run_label(mechanism, seed));
}

runs::RunConfig trial_config(const Comparison& comparison, MechanismPlan plan, double rate) {
  plan.steps = trial_steps(plan);
  plan.learning_rate = rate;
  runs::RunConfig config = run_config(comparison, plan, comparison.settings.seeds.front());
  config.training.evaluate_every = 0;
  return config;
}

}  // namespace

std::string run_label(const std::string& mechanism, std::int64_t seed) {
  return fmt::format("{} seed {}", mechanism, seed);
}

std::string stopped_message(std::int64_t step, std::int64_t steps) {
  return fmt::format("stopped at step {} of {}; its checkpoint is kept", step, steps);
}

std::string trial_label(const TuningTrial& trial) {
  return fmt::format("{} learning rate {:.3g}", trial.mechanism, trial.learning_rate);
}

void choose_rate(Comparison& comparison, MechanismPlan& plan) {
  TuningTrial* best = nullptr;
  const auto is_better = [&](const TuningTrial& trial) {
    if (best == nullptr || *trial.value == *best->value)
      return best == nullptr || trial.learning_rate < best->learning_rate;
    return comparison.better(*trial.value, *best->value);
  };
  for (TuningTrial& trial : comparison.tuning)
    if (trial.mechanism == plan.name && trial.value && is_better(trial)) best = &trial;
  if (best == nullptr) return;
  best->chosen = true;
  plan.learning_rate = best->learning_rate;
}

std::optional<TuningTrial> RunMaker::try_rate(const Comparison& comparison, const MechanismPlan& plan,
                                              double rate) const {
  const std::shared_ptr<const runs::Task> task = tasks_.of(plan.name)->for_tuning();
  const runs::RunConfig config = trial_config(comparison, plan, rate), place = task->completed(config);
  const std::int64_t evaluated = comparison.data.evaluated_tokens;
  TuningTrial trial{.mechanism = plan.name, .learning_rate = rate, .steps = config.training.steps};
  if (store_ != nullptr)
    if (const auto stored = store_->trial(place, evaluated)) {
      trial.value = stored->value;
      return trial;
    }
  bool stopped = false;
  trial.message = problem_of([&] {
    runs::TrainingRun run(config.model, config.training, task);
    const runs::TrainingStatus status =
        run.train({.report = [&](const runs::StepReport& report) { hooks_.progress(trial_label(trial), report); },
                   .checkpoint = {},
                   .stop = hooks_.stop});
    stopped = status == runs::TrainingStatus::stopped;
    if (status == runs::TrainingStatus::finished)
      trial.value = *runs::find_value(run.last_measured(), task->description().decisive().name);
  });
  if (stopped) return std::nullopt;
  if (store_ != nullptr && trial.message.empty()) store_->keep(place, evaluated, trial);
  return trial;
}

void RunMaker::say(const std::string& line) {
  hooks_.line(line);
  lines_.push_back(line);
}

RunResult RunMaker::make_run(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed) {
  RunResult result;
  if (const std::string problem = problem_of([&] { result = train(comparison, plan, seed); }); !problem.empty()) {
    result.message = problem;
    result.status = RunStatus::failed;
  }
  result.mechanism = plan.name;
  result.seed = seed;
  result.learning_rate = plan.learning_rate;
  result.parameters = plan.parameters;
  return result;
}

RunResult RunMaker::train(const Comparison& comparison, const MechanismPlan& plan, std::int64_t seed) {
  const runs::Task& task = *tasks_.of(plan.name);
  const runs::RunConfig config = task.completed(run_config(comparison, plan, seed));
  if (store_ == nullptr) return train_in(folder_.run_path(plan, seed), config, plan, seed);
  struct Stopped {};
  const fs::path place = store_->place(config, comparison.data.evaluated_tokens);
  bool said = false;
  try {
    const StoredRun stored(place, [&] {
      if (asked_to_stop()) throw Stopped();
      if (!std::exchange(said, true)) say(waiting_line(plan.name, seed));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    });
    folder_.link_run(plan, seed, stored.run_path());
    if (store_->retrains()) stored.clear_for(store_->wish());
    try {
      if (const auto result = stored.result(config, task.description())) return *result;
    } catch (const Error& error) {
      say(fmt::format("  {}: trained anew: {}", run_label(plan.name, seed), one_line(error.what())));
      stored.clear();
    }
    RunResult result = train_in(stored.run_path(), config, plan, seed);
    if (result.status == RunStatus::done || result.status == RunStatus::diverged) stored.keep(result);
    return result;
  } catch (const Stopped&) {
    return {.status = RunStatus::interrupted, .message = waited_in_vain};
  }
}

RunResult RunMaker::train_in(const fs::path& path, const runs::RunConfig& config, const MechanismPlan& plan,
                             std::int64_t seed) {
  const std::shared_ptr<const runs::Task>& task = tasks_.of(plan.name);
  // A worker of a process that has ended is about to stop.
  for (bool said = false; is_locked(path);) {
    if (asked_to_stop()) return {.status = RunStatus::interrupted, .message = waited_in_vain};
    if (!std::exchange(said, true)) say(waiting_line(plan.name, seed));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const bool resumed = fs::exists(path / "config.toml") && runs::RunFolder::holds_checkpoint(path);
  const runs::PeakMemory memory{at::Device(config.training.device)};
  runs::TrainingRun run(config.model, config.training, task);
  const runs::RunFolder folder =
      resumed ? runs::RunFolder::resume(path) : runs::RunFolder::create(path, config, task->assets(), true);
  std::vector<runs::StepReport> reports;
  if (resumed) {
    for (const std::string& warning : runs::load_newest(run, folder)) say(warning);
    reports = runs::read_metrics(folder.metrics_path());
    std::erase_if(reports, [&](const runs::StepReport& report) { return report.step > run.steps_done(); });
  }
  const std::string label = run_label(plan.name, seed);
  const runs::TrainingStatus status = runs::train_in_folder(
      run, folder,
      {.report =
           [&](const runs::StepReport& report) {
             reports.push_back(report);
             hooks_.progress(label, report);
           },
       .returned =
           [&](std::int64_t step) { std::erase_if(reports, [&](const auto& report) { return report.step > step; }); },
       .warn = [&](const std::string& line) { say(line); },
       .stop = hooks_.stop});

  RunResult result;
  result.tokens = run.tokens();
  result.seconds = run.seconds();
  result.evaluation_seconds = run.evaluation_seconds();
  result.tokens_per_second = run.seconds() > 0 ? static_cast<double>(run.tokens()) / run.seconds() : 0;
  result.peak_memory_bytes = memory.bytes();
  result.curve = curve_of(reports);
  switch (status) {
    case runs::TrainingStatus::finished:
      result.status = RunStatus::done;
      result.measured = run.last_measured();
      inspections_.push_back(run.inspect(static_cast<std::uint64_t>(seed)));
      result.by_difficulty = inspections_.back().by_difficulty;
      inspections_.back().mechanism = plan.name;
      inspections_.back().seed = seed;
      write_file(path / "inspection.json", runs::inspection_to_json(inspections_.back()));
      break;
    case runs::TrainingStatus::spike:
    case runs::TrainingStatus::non_finite:
      result.status = RunStatus::diverged;
      result.message = run.problem() + "; the last good checkpoint is kept";
      break;
    case runs::TrainingStatus::stopped:
      result.status = RunStatus::interrupted;
      result.message = stopped_message(run.steps_done(), plan.steps);
      break;
  }
  return result;
}

std::int64_t take_stored_trials(Comparison& comparison, const RowTasks& tasks, const RunStore& store) {
  const std::int64_t trials = comparison.settings.tune;
  std::int64_t taken = 0;
  if (trials == 0) return taken;
  for (MechanismPlan& plan : comparison.mechanisms) {
    const std::shared_ptr<const runs::Task> task = tasks.of(plan.name)->for_tuning();
    std::vector<TuningTrial> found;
    for (const double rate : trial_rates(untuned_rate(comparison, plan), trials))
      if (auto trial =
              store.trial(task->completed(trial_config(comparison, plan, rate)), comparison.data.evaluated_tokens)) {
        trial->mechanism = plan.name;
        found.push_back(*std::move(trial));
      }
    taken += std::ssize(found);
    if (std::ssize(found) < trials) continue;
    comparison.tuning.insert(comparison.tuning.end(), found.begin(), found.end());
    choose_rate(comparison, plan);
  }
  return taken;
}

}  // namespace cogwheel::compare
