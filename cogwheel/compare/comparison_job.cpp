#include "cogwheel/compare/comparison_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/core/wording/count_text.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/metrics.h"

namespace cogwheel::compare {

ComparisonJob::ComparisonJob(Comparison comparison, RowTasks tasks, ComparisonFolder folder, ComparisonHooks hooks,
                             RunStore* store)
    : comparison_(std::move(comparison)),
      maker_(std::move(tasks), std::move(folder), std::move(hooks), store),
      seconds_before_(comparison_.settings.wall_seconds) {}

void ComparisonJob::run() {
  begin();
  for (MechanismPlan& plan : comparison_.mechanisms) tune(plan);
  write_results();  // with the chosen rates, before the first run that uses one

  begin_runs();
  for (const std::int64_t seed : comparison_.settings.seeds)
    for (const MechanismPlan& plan : comparison_.mechanisms) {
      if (!comparison_.is_to_do(plan.name, seed)) continue;
      if (maker_.asked_to_stop()) interrupt();
      const RunResult result = maker_.make_run(comparison_, plan, seed);
      take(result);
      if (result.status == RunStatus::interrupted) interrupt();
    }
  finish();
}

void ComparisonJob::share(const WorkTerms& terms, std::vector<WorkItem> items,
                          const std::function<void(const WorkQueue&)>& wait) {
  begin();  // before the queue: workers read what is to be made
  begin_runs();
  struct OpenQueue {
    WorkQueue queue;
    ~OpenQueue() { queue.close(); }
  } const open{WorkQueue::open(maker_.folder().path(), terms, std::move(items))};
  std::vector<WorkItem> left = open.queue.items();
  while (true) {
    std::erase_if(left, [&](const WorkItem& item) { return take_from(open.queue, item); });
    for (MechanismPlan& plan : comparison_.mechanisms)
      if (std::ranges::none_of(left, [&](const auto& item) { return item.rate && item.mechanism == plan.name; }))
        choose_rate(comparison_, plan);
    if (left.empty()) break;
    if (maker_.asked_to_stop()) {
      for (const WorkItem& item : left)
        if (!item.rate && open.queue.is_claimed(item)) record(interrupted(item));
      interrupt();
    }
    wait(open.queue);
  }
  finish();
}

RunResult ComparisonJob::interrupted(const WorkItem& item) const {
  const MechanismPlan& plan = *comparison_.plan(item.mechanism);
  const auto step = runs::last_reported_step(runs::metrics_path(maker_.folder().run_path(plan, item.seed)));
  return {.mechanism = plan.name,
          .seed = item.seed,
          .learning_rate = plan.learning_rate,
          .parameters = plan.parameters,
          .status = RunStatus::interrupted,
          .message = stopped_message(step.value_or(0), plan.steps)};
}

bool ComparisonJob::take_from(const WorkQueue& queue, const WorkItem& item) {
  if (!queue.has_result(item)) return false;
  for (const std::string& line : queue.lines(item)) maker_.hooks().line(line);
  if (item.rate)
    take(*queue.trial(item));
  else
    take(*queue.run(item, comparison_.task));
  return true;
}

void ComparisonJob::begin() {
  comparison_.interrupted = true;  // until it is done, so that the files on disk say so however the process ends
  write_results();
}

void ComparisonJob::begin_runs() {
  first_run_ = WallClock::now();
  runs_to_do_ = comparison_.runs_to_do();
}

void ComparisonJob::finish() {
  comparison_.interrupted = false;
  write_results();
  write_report();
}

void ComparisonJob::expect_success() const {
  const auto failed = std::find_if(comparison_.runs.begin(), comparison_.runs.end(),
                                   [](const RunResult& run) { return run.status == RunStatus::failed; });
  const auto count = std::count_if(failed, comparison_.runs.end(),
                                   [](const RunResult& run) { return run.status == RunStatus::failed; });
  const std::string report = maker_.folder().report_path().string();
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
  for (const double rate : trial_rates(untuned_rate(comparison_, plan), trials)) {
    if (comparison_.is_tried(plan.name, rate)) continue;
    if (maker_.asked_to_stop()) interrupt();
    const auto trial = maker_.try_rate(comparison_, plan, rate);
    if (!trial) interrupt();
    take(*trial);
  }
  choose_rate(comparison_, plan);
}

void ComparisonJob::take(const TuningTrial& trial) {
  maker_.hooks().line(
      fmt::format("  {:<36} {}", trial_label(trial),
                  !trial.message.empty() ? "failed: " + trial.message
                  : trial.value ? fmt::format("validation {} {:.4f}", comparison_.task.decisive().label, *trial.value)
                                : "diverged"));
  comparison_.tuning.push_back(trial);
  // In the order of the report, not of trying.
  std::ranges::stable_sort(comparison_.tuning, [&](const TuningTrial& a, const TuningTrial& b) {
    return std::pair(comparison_.plan(a.mechanism), a.learning_rate) <
           std::pair(comparison_.plan(b.mechanism), b.learning_rate);
  });
  write_results();
}

void ComparisonJob::take(const RunResult& result) {
  record(result);
  announce(result, ++runs_done_, runs_to_do_);
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
    maker_.hooks().line(fmt::format("{}{}: {}", text, status_name(result.status), result.message));
    return;
  }
  const double value = *comparison_.result(&result);
  text += fmt::format("{} {:.4f}", comparison_.task.decisive().label, value);
  const double* base = comparison_.result(comparison_.run(comparison_.base_of(result.mechanism), result.seed));
  text += base != nullptr && !comparison_.is_base(result.mechanism) ? fmt::format(" {:+.4f}", value - *base)
                                                                    : std::string(8, ' ');
  text += fmt::format("  {:>8} {}/s", count_text(result.tokens_per_second), comparison_.task.counted);
  // From the runs of this invocation: the speed of the machine may differ from the estimate.
  const double spent = seconds_since(first_run_);
  if (done < total)
    text += fmt::format("  about {} left in all",
                        duration_text(spent / static_cast<double>(done) * static_cast<double>(total - done)));
  maker_.hooks().line(text);
}

void ComparisonJob::write_results() {
  comparison_.settings.wall_seconds = seconds_before_ + seconds_since(start_);
  comparison_.summary = summarize(comparison_);
  comparison_.command = reproduce_command(comparison_);
  maker_.folder().write_results(comparison_);
}

void ComparisonJob::write_report() {
  for (const std::string& problem : maker_.folder().write_report(comparison_, maker_.inspections()))
    maker_.hooks().line("left out of the report: " + problem);
}

void ComparisonJob::interrupt() {
  write_results();
  write_report();
  throw Interrupted(
      fmt::format("interrupted after {} of {} runs; the partial report is {}, and `{}` continues",
                  comparison_.finished_runs(), comparison_.planned_runs(), maker_.folder().report_path().string(),
                  maker_.hooks().resume.empty() ? "cogwheel compare --resume " + maker_.folder().path().string()
                                                : maker_.hooks().resume));
}

}  // namespace cogwheel::compare
