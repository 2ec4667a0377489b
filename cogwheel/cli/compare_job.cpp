#include "cogwheel/cli/compare_job.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "cogwheel/cli/compare_plan.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "cogwheel/evaluate/inspect.h"
#include "cogwheel/evaluate/machine.h"
#include "cogwheel/evaluate/presets.h"
#include "cogwheel/evaluate/verdict.h"
#include "cogwheel/report/inspection_json.h"
#include "cogwheel/train/metrics.h"
#include "cogwheel/train/run_folder.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {
namespace fs = std::filesystem;
namespace {

// The last tenth of the training part, for choosing learning rates: never the held-out part, which is for the result.
std::shared_ptr<const Dataset> tuning_data(const Dataset& data) {
  auto split = std::make_shared<Dataset>(data);
  const std::size_t start = data.training.size() * 9 / 10;
  const std::size_t count = std::min(data.training.size() - start, data.held_out.size());
  split->training.resize(start);
  split->held_out.assign(data.training.begin() + static_cast<std::ptrdiff_t>(start),
                         data.training.begin() + static_cast<std::ptrdiff_t>(start + count));
  return split;
}

// One point per evaluation; the training loss is the mean over the steps since the point before.
std::vector<CurvePoint> curve_of(const std::vector<StepReport>& reports) {
  std::vector<CurvePoint> curve;
  double sum = 0;
  std::int64_t steps = 0, last = 0;
  for (const StepReport& report : reports) {
    sum += report.train_loss * static_cast<double>(report.step - last);
    steps += report.step - last;
    last = report.step;
    if (!report.held_out_loss) continue;
    curve.push_back({.step = report.step,
                     .train_loss = sum / static_cast<double>(steps),
                     .held_out_loss = report.held_out_loss,
                     .heads = report.heads});
    sum = 0;
    steps = 0;
  }
  return curve;
}

}  // namespace

CompareJob::CompareJob(Comparison comparison, std::shared_ptr<const Dataset> data, CompareFolder folder)
    : comparison_(std::move(comparison)),
      data_(std::move(data)),
      folder_(std::move(folder)),
      seconds_before_(comparison_.settings.wall_seconds) {}

void CompareJob::run() {
  comparison_.interrupted = true;  // until it is done: what is on disk then says so, whatever ends the process
  write_results();
  for (MechanismPlan& plan : comparison_.mechanisms) tune(plan);
  write_results();  // the chosen rates, before the first run that has one

  first_run_ = Clock::now();
  const std::int64_t total = comparison_.planned_runs();
  std::int64_t done = 0;
  for (const std::int64_t seed : comparison_.settings.seeds)
    for (const MechanismPlan& plan : comparison_.mechanisms) {
      ++done;
      const RunResult* before = comparison_.run(plan.name, seed);
      if (before != nullptr && (before->finished() || before->status == RunStatus::diverged)) continue;
      if (stop_flag()) interrupt();
      RunResult result;
      try {
        result = train(plan, seed);
      } catch (const c10::Error& error) {
        result.message = one_line(error.what_without_backtrace());
        result.status = RunStatus::failed;
      } catch (const std::exception& error) {
        result.message = one_line(error.what());
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

void CompareJob::expect_success() const {
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

void CompareJob::tune(MechanismPlan& plan) {
  const std::int64_t trials = comparison_.settings.tune;
  if (trials == 0) return;
  const auto tried = [&](double rate) {
    return std::any_of(comparison_.tuning.begin(), comparison_.tuning.end(), [&](const TuningTrial& trial) {
      return trial.mechanism == plan.name && trial.learning_rate == rate;
    });
  };
  const std::shared_ptr<const Dataset> data = tuning_data(*data_);
  for (const double rate : trial_rates(comparison_.settings.learning_rate, trials)) {
    if (tried(rate)) continue;
    if (stop_flag()) interrupt();
    RunConfig config = run_config(comparison_, plan, comparison_.settings.seeds.front());
    config.training = with_steps(config.training, trial_steps(plan));
    config.training.evaluate_every = 0;
    config.training.learning_rate = rate;
    config.training.final_learning_rate =
        rate * comparison_.settings.final_learning_rate / comparison_.settings.learning_rate;
    TrainingRun run(config.model, config.training, data);
    const std::string label = fmt::format("{} learning rate {:.3g}", plan.name, rate);
    const TrainingStatus status = run.train({.report = [&](const StepReport& report) { progress_.show(label, report); },
                                             .checkpoint = {},
                                             .stop = &stop_flag()});
    if (status == TrainingStatus::stopped) interrupt();
    TuningTrial trial{.mechanism = plan.name, .learning_rate = rate, .steps = config.training.steps};
    if (status == TrainingStatus::finished) trial.validation_loss = run.last_held_out_loss();
    progress_.line(fmt::format(
        "  {:<36} {}", label,
        trial.validation_loss ? fmt::format("validation loss {:.4f}", *trial.validation_loss) : "diverged"));
    comparison_.tuning.push_back(trial);
    write_results();
  }
  TuningTrial* best = nullptr;
  for (TuningTrial& trial : comparison_.tuning)
    if (trial.mechanism == plan.name && trial.validation_loss &&
        (best == nullptr || *trial.validation_loss < *best->validation_loss))
      best = &trial;
  if (best == nullptr) return;  // every trial diverged: the default is as good as any
  best->chosen = true;
  plan.learning_rate = best->learning_rate;
}

RunResult CompareJob::train(const MechanismPlan& plan, std::int64_t seed) {
  const RunConfig config = completed(run_config(comparison_, plan, seed), *data_);
  const fs::path path = folder_.run_path(plan, seed);
  const bool resumed = fs::exists(path / "checkpoint.safetensors");
  const bool measured = reset_peak_memory();
  TrainingRun run(config.model, config.training, data_);
  const RunFolder folder = resumed ? RunFolder::resume(path) : RunFolder::create(path, config, *data_->tokenizer, true);
  if (resumed)
    for (const std::string& warning : run.load(folder.checkpoint_path())) progress_.line(warning);
  const std::string label = fmt::format("{} seed {}", plan.name, seed);
  const TrainingStatus status =
      train_in_folder(run, folder,
                      {.report = [&](const StepReport& report) { progress_.show(label, report); },
                       .checkpoint = {},
                       .stop = &stop_flag()});

  RunResult result;
  result.tokens = run.tokens();
  result.seconds = run.seconds();
  result.evaluation_seconds = run.evaluation_seconds();
  result.tokens_per_second = run.seconds() > 0 ? static_cast<double>(run.tokens()) / run.seconds() : 0;
  if (measured) result.peak_memory_bytes = peak_memory_bytes();
  result.curve = curve_of(read_metrics(folder.metrics_path()));
  switch (status) {
    case TrainingStatus::finished:
      result.status = RunStatus::done;
      result.held_out_loss = run.last_held_out_loss();
      write_file(path / "inspection.json", inspection_to_json(inspect(run.model(), *data_, plan.name, seed)));
      break;
    case TrainingStatus::non_finite:
      result.status = RunStatus::diverged;
      result.message = run.problem() + "; the last good checkpoint is kept";
      break;
    case TrainingStatus::stopped:
      result.status = RunStatus::interrupted;
      result.message = fmt::format("stopped at step {} of {}; its checkpoint is kept", run.steps_done(), plan.steps);
      break;
  }
  return result;
}

void CompareJob::record(RunResult result) {
  std::erase_if(comparison_.runs,
                [&](const RunResult& run) { return run.mechanism == result.mechanism && run.seed == result.seed; });
  comparison_.runs.push_back(std::move(result));
  // As the report lists them, whatever the order in which they were made.
  std::stable_sort(comparison_.runs.begin(), comparison_.runs.end(), [&](const RunResult& a, const RunResult& b) {
    const auto place = [&](const RunResult& run) { return comparison_.plan(run.mechanism); };
    return std::pair(place(a), a.seed) < std::pair(place(b), b.seed);
  });
  write_results();
}

void CompareJob::announce(const RunResult& result, std::int64_t done, std::int64_t total) {
  std::string text = fmt::format("  {:>3}/{:<3} {:<20} seed {:<3} ", done, total, result.mechanism, result.seed);
  if (result.status != RunStatus::done) {
    progress_.line(fmt::format("{}{}: {}", text, status_name(result.status), result.message));
    return;
  }
  text += fmt::format("held-out {:.4f}", *result.held_out_loss);
  const RunResult* base = comparison_.run(comparison_.baseline, result.seed);
  text += base != nullptr && base->held_out_loss && base->mechanism != result.mechanism
              ? fmt::format(" {:+.4f}", *result.held_out_loss - *base->held_out_loss)
              : std::string(8, ' ');
  text += fmt::format("  {:>8} tokens/s", count_text(result.tokens_per_second));
  // From the runs of this sitting; what the estimate assumed of the machine may no longer hold.
  const double spent = std::chrono::duration<double>(Clock::now() - first_run_).count();
  if (done < total)
    text += fmt::format("  about {} left in all",
                        duration_text(spent / static_cast<double>(++runs_here_) * static_cast<double>(total - done)));
  progress_.line(text);
}

void CompareJob::write_results() {
  comparison_.settings.wall_seconds = seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  comparison_.summary = summarize(comparison_);
  comparison_.command = reproduce_command(comparison_);
  folder_.write_results(comparison_);
}

void CompareJob::write_report() {
  for (const std::string& problem : folder_.write_report(comparison_))
    progress_.line("left out of the report: " + problem);
}

void CompareJob::interrupt() {
  progress_.clear();
  write_results();
  write_report();
  throw Interrupted(
      fmt::format("interrupted after {} of {} runs; the partial report is {}, and `cogwheel compare "
                  "--resume {}` goes on",
                  comparison_.finished_runs(), comparison_.planned_runs(), folder_.report_path().string(),
                  folder_.path().string()));
}

}  // namespace cogwheel
