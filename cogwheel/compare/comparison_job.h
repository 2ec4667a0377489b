// Runs a comparison in its folder.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::compare {

// How the caller follows the job and stops it.
struct ComparisonHooks {
  std::function<void(const std::string& label, const runs::StepReport&)> progress;
  std::function<void(const std::string&)> line;
  const std::atomic<bool>* stop = nullptr;  // checked between steps
  std::string resume = {};                  // the command that goes on; empty: that of the comparison itself
};

class ComparisonJob {
 public:
  // With a store, which outlives the job, runs are made in it, or taken from it where they are finished, and the folder
  // has links to them.
  ComparisonJob(Comparison comparison, RowTasks tasks, ComparisonFolder folder, ComparisonHooks hooks,
                RunStore* store = nullptr);

  // Makes every trial and run that is not done yet, seed by seed, so that results are paired as far as possible at any
  // time. Writes the files at the end. Throws Interrupted once the flag of the hooks is set.
  void run();
  // Throws Error where a run failed, or none finished.
  void expect_success() const;

  const Comparison& comparison() const { return comparison_; }

 private:
  using Clock = std::chrono::steady_clock;

  void tune(MechanismPlan& plan);
  // Taken from the store where it is there.
  TuningTrial try_rate(const MechanismPlan& plan, double rate, const std::shared_ptr<const runs::Task>& task);
  // In the folder of the comparison or in the store, where it is taken if it is finished there.
  RunResult train(const MechanismPlan& plan, std::int64_t seed);
  RunResult train_in(const std::filesystem::path& path, const runs::RunConfig& config, const MechanismPlan& plan,
                     std::int64_t seed);
  void record(RunResult result);
  // Of the runs of this invocation, how many are done and how many it has in all.
  void announce(const RunResult& result, std::int64_t done, std::int64_t total);
  void write_results();
  void write_report();
  bool asked_to_stop() const { return hooks_.stop != nullptr && hooks_.stop->load(); }
  [[noreturn]] void interrupt();

  Comparison comparison_;
  RowTasks tasks_;
  ComparisonFolder folder_;
  ComparisonHooks hooks_;
  RunStore* store_;
  std::vector<runs::Inspection> inspections_ = {};  // of the models that were trained here
  Clock::time_point start_ = Clock::now(), first_run_ = start_;
  double seconds_before_ = 0;  // of earlier invocations
};

// The trials that the store has, and the learning rates of rows that it has all trials of. Returns how many it has.
std::int64_t take_stored_trials(Comparison& comparison, const RowTasks& tasks, const RunStore& store);

}  // namespace cogwheel::compare
