#include "cogwheel/compare/comparison_job.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/count_text.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/runs/inspection_json.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/metrics.h"
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

// What the work threw, in one line; empty if nothing. One run or trial that fails does not end the others.
template <class Work>
std::string problem_of(const Work& work) {
  const auto said = [](const std::string& text) { return text.empty() ? std::string("unknown problem") : text; };
  try {
    work();
  } catch (const c10::Error& error) {
    return said(one_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return said(one_line(error.what()));
  }
  return "";
}

std::string trial_label(const TuningTrial& trial) {
  return fmt::format("{} learning rate {:.3g}", trial.mechanism, trial.learning_rate);
}

runs::RunConfig trial_config(const Comparison& comparison, MechanismPlan plan, double rate) {
  plan.steps = trial_steps(plan);
  plan.learning_rate = rate;
  runs::RunConfig config = run_config(comparison, plan, comparison.settings.seeds.front());
  config.training.evaluate_every = 0;
  return config;
}

// That of the best trial; where every one diverged or failed, the default is as good as any.
void choose_rate(Comparison& comparison, MechanismPlan& plan) {
  TuningTrial* best = nullptr;
  for (TuningTrial& trial : comparison.tuning)
    if (trial.mechanism == plan.name && trial.value &&
        (best == nullptr || comparison.better(*trial.value, *best->value)))
      best = &trial;
  if (best == nullptr) return;
  best->chosen = true;
  plan.learning_rate = best->learning_rate;
}

}  // namespace

ComparisonJob::ComparisonJob(Comparison comparison, RowTasks tasks, ComparisonFolder folder, ComparisonHooks hooks,
                             RunStore* store)
    : comparison_(std::move(comparison)),
      tasks_(std::move(tasks)),
      folder_(std::move(folder)),
      hooks_(std::move(hooks)),
      store_(store),
      seconds_before_(comparison_.settings.wall_seconds) {}

void ComparisonJob::run() {
  comparison_.interrupted = true;  // until it is done, so that the files on disk say so however the process ends
  write_results();
  for (MechanismPlan& plan : comparison_.mechanisms) tune(plan);
  write_results();  // with the chosen rates, before the first run that uses one

  first_run_ = Clock::now();
  const std::int64_t total = comparison_.runs_to_do();
  std::int64_t done = 0;
  for (const std::int64_t seed : comparison_.settings.seeds)
    for (const MechanismPlan& plan : comparison_.mechanisms) {
      if (!comparison_.is_to_do(plan.name, seed)) continue;
      if (asked_to_stop()) interrupt();
      ++done;
      RunResult result;
      if (const std::string problem = problem_of([&] { result = train(plan, seed); }); !problem.empty()) {
        result.message = problem;
        result.status = RunStatus::failed;
      }
      result.mechanism = plan.name;
      result.seed = seed;
      result.learning_rate = plan.learning_rate;
      result.parameters = plan.parameters;
      record(result);
      announce(result, done, total);
      if (result.status == RunStatus::interrupted) interrupt();
    }

  comparison_.interrupted = false;
  write_results();
  write_report();
}

void ComparisonJob::expect_success() const {
  const auto failed = std::find_if(comparison_.runs.begin(), comparison_.runs.end(),
                                   [](const RunResult& run) { return run.status == RunStatus::failed; });
  const auto count = std::count_if(failed, comparison_.runs.end(),
                                   [](const RunResult& run) { return run.status == RunStatus::failed; });
  const std::string report = folder_.report_path().string();
  if (count > 0)
    throw Error(expected_got(
        "comparison", "no run that fails",
        fmt::format("{} of {}, as {} says; the first of {} in seed {}: {}", count, comparison_.planned_runs(), report,
                    failed->mechanism, failed->seed, failed->message)));
  if (comparison_.finished_runs() == 0)
    throw Error(expected_got("comparison", "a run that finishes", "none; " + report + " says why"));
}

void ComparisonJob::tune(MechanismPlan& plan) {
  const std::int64_t trials = comparison_.settings.tune;
  if (trials == 0) return;
  const auto tried = [&](double rate) {
    return std::any_of(comparison_.tuning.begin(), comparison_.tuning.end(), [&](const TuningTrial& trial) {
      return trial.mechanism == plan.name && trial.learning_rate == rate;
    });
  };
  const std::shared_ptr<const runs::Task> task = tasks_.of(plan.name)->for_tuning();
  const runs::Measure& measure = task->description().decisive();
  for (const double rate : trial_rates(untuned_rate(comparison_, plan), trials)) {
    if (tried(rate)) continue;
    if (asked_to_stop()) interrupt();
    const TuningTrial trial = try_rate(plan, rate, task);
    hooks_.line(fmt::format("  {:<36} {}", trial_label(trial),
                            !trial.message.empty() ? "failed: " + trial.message
                            : trial.value          ? fmt::format("validation {} {:.4f}", measure.label, *trial.value)
                                                   : "diverged"));
    comparison_.tuning.push_back(trial);
    write_results();
  }
  choose_rate(comparison_, plan);
}

TuningTrial ComparisonJob::try_rate(const MechanismPlan& plan, double rate,
                                    const std::shared_ptr<const runs::Task>& task) {
  const runs::RunConfig config = trial_config(comparison_, plan, rate), place = task->completed(config);
  const std::int64_t evaluated = comparison_.data.evaluated_tokens;
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
  if (stopped) interrupt();
  if (store_ != nullptr && trial.message.empty()) store_->keep(place, evaluated, trial);
  return trial;
}

RunResult ComparisonJob::train(const MechanismPlan& plan, std::int64_t seed) {
  const runs::Task& task = *tasks_.of(plan.name);
  const runs::RunConfig config = task.completed(run_config(comparison_, plan, seed));
  if (store_ == nullptr) return train_in(folder_.run_path(plan, seed), config, plan, seed);
  struct Stopped {};
  const fs::path place = store_->place(config, comparison_.data.evaluated_tokens);
  bool said = false;
  try {
    const StoredRun stored(place, [&] {
      if (asked_to_stop()) throw Stopped();
      if (!std::exchange(said, true))
        hooks_.line(fmt::format("  {} seed {}: another process trains it; waiting", plan.name, seed));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    });
    folder_.link_run(plan, seed, stored.run_path());
    if (store_->retrains()) stored.clear();
    try {
      if (const auto result = stored.result(config, task.description())) return *result;
    } catch (const Error& error) {
      hooks_.line(fmt::format("  {} seed {}: trained anew: {}", plan.name, seed, one_line(error.what())));
      stored.clear();
    }
    RunResult result = train_in(stored.run_path(), config, plan, seed);
    if (result.status == RunStatus::done || result.status == RunStatus::diverged) stored.keep(result);
    return result;
  } catch (const Stopped&) {
    return {.status = RunStatus::interrupted, .message = "stopped while another process was training it"};
  }
}

RunResult ComparisonJob::train_in(const fs::path& path, const runs::RunConfig& config, const MechanismPlan& plan,
                                  std::int64_t seed) {
  const std::shared_ptr<const runs::Task>& task = tasks_.of(plan.name);
  const bool resumed = fs::exists(path / "config.toml") && runs::RunFolder::holds_checkpoint(path);
  const bool measured = reset_peak_memory();
  runs::TrainingRun run(config.model, config.training, task);
  const runs::RunFolder folder =
      resumed ? runs::RunFolder::resume(path) : runs::RunFolder::create(path, config, task->assets(), true);
  std::vector<runs::StepReport> reports;
  if (resumed) {
    for (const std::string& warning : runs::load_newest(run, folder)) hooks_.line(warning);
    reports = runs::read_metrics(folder.metrics_path());
    std::erase_if(reports, [&](const runs::StepReport& report) { return report.step > run.steps_done(); });
  }
  const std::string label = fmt::format("{} seed {}", plan.name, seed);
  const runs::TrainingStatus status = runs::train_in_folder(
      run, folder,
      {.report =
           [&](const runs::StepReport& report) {
             reports.push_back(report);
             hooks_.progress(label, report);
           },
       .returned =
           [&](std::int64_t step) { std::erase_if(reports, [&](const auto& report) { return report.step > step; }); },
       .warn = [&](const std::string& line) { hooks_.line(line); },
       .stop = hooks_.stop});

  RunResult result;
  result.tokens = run.tokens();
  result.seconds = run.seconds();
  result.evaluation_seconds = run.evaluation_seconds();
  result.tokens_per_second = run.seconds() > 0 ? static_cast<double>(run.tokens()) / run.seconds() : 0;
  if (measured) result.peak_memory_bytes = peak_memory_bytes();
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
      result.message = fmt::format("stopped at step {} of {}; its checkpoint is kept", run.steps_done(), plan.steps);
      break;
  }
  return result;
}

void ComparisonJob::record(RunResult result) {
  std::erase_if(comparison_.runs,
                [&](const RunResult& run) { return run.mechanism == result.mechanism && run.seed == result.seed; });
  comparison_.runs.push_back(std::move(result));
  // In the order of the report, not of training.
  std::stable_sort(comparison_.runs.begin(), comparison_.runs.end(), [&](const RunResult& a, const RunResult& b) {
    const auto place = [&](const RunResult& run) { return comparison_.plan(run.mechanism); };
    return std::pair(place(a), a.seed) < std::pair(place(b), b.seed);
  });
  write_results();
}

void ComparisonJob::announce(const RunResult& result, std::int64_t done, std::int64_t total) {
  std::string text = fmt::format("  {:>3}/{:<3} {:<20} seed {:<3} ", done, total, result.mechanism, result.seed);
  if (result.status != RunStatus::done) {
    hooks_.line(fmt::format("{}{}: {}", text, status_name(result.status), result.message));
    return;
  }
  const double value = *comparison_.result(&result);
  text += fmt::format("{} {:.4f}", comparison_.task.decisive().label, value);
  const double* base = comparison_.result(comparison_.run(comparison_.base_of(result.mechanism), result.seed));
  text += base != nullptr && !comparison_.is_base(result.mechanism) ? fmt::format(" {:+.4f}", value - *base)
                                                                    : std::string(8, ' ');
  text += fmt::format("  {:>8} {}/s", count_text(result.tokens_per_second), comparison_.task.counted);
  // From the runs of this invocation: the speed of the machine may differ from the estimate.
  const double spent = std::chrono::duration<double>(Clock::now() - first_run_).count();
  if (done < total)
    text += fmt::format("  about {} left in all",
                        duration_text(spent / static_cast<double>(done) * static_cast<double>(total - done)));
  hooks_.line(text);
}

void ComparisonJob::write_results() {
  comparison_.settings.wall_seconds = seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  comparison_.summary = summarize(comparison_);
  comparison_.command = reproduce_command(comparison_);
  folder_.write_results(comparison_);
}

void ComparisonJob::write_report() {
  for (const std::string& problem : folder_.write_report(comparison_, inspections_))
    hooks_.line("left out of the report: " + problem);
}

void ComparisonJob::interrupt() {
  write_results();
  write_report();
  throw Interrupted(
      fmt::format("interrupted after {} of {} runs; the partial report is {}, and `{}` continues",
                  comparison_.finished_runs(), comparison_.planned_runs(), folder_.report_path().string(),
                  hooks_.resume.empty() ? "cogwheel compare --resume " + folder_.path().string() : hooks_.resume));
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
