// Runs a comparison in its folder.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/compare/run_maker.h"
#include "cogwheel/compare/work_queue.h"
#include "cogwheel/core/process/wall_clock.h"

namespace cogwheel::compare {

class ComparisonJob {
 public:
  // With a store, which outlives the job, runs are made in it, or taken from it where they are finished, and the folder
  // has links to them.
  ComparisonJob(Comparison comparison, RowTasks tasks, ComparisonFolder folder, ComparisonHooks hooks,
                RunStore* store = nullptr);

  // Makes every trial and run that is not done yet, seed by seed, so that results are paired as far as possible at any
  // time. Writes the files at the end. Throws Interrupted once the flag of the hooks is set.
  void run();
  // Has workers make them, longest first: opens a queue of these items and takes the results as they come. Calls `wait`
  // between looks, which gives workers time. The queue is closed however this ends.
  void share(const WorkTerms& terms, std::vector<WorkItem> items, const std::function<void(const WorkQueue&)>& wait);
  // Throws Error where a run failed, or none finished.
  void expect_success() const;

  const Comparison& comparison() const { return comparison_; }

 private:
  void begin();
  void begin_runs();
  void finish();
  void tune(MechanismPlan& plan);
  // Records what was made, and says so.
  void take(const TuningTrial& trial);
  void take(const RunResult& result);
  RunResult interrupted(const WorkItem& item) const;
  bool take_from(const WorkQueue& queue, const WorkItem& item);  // whether it is there
  void record(RunResult result);
  // Of the runs of this invocation, how many are done and how many it has in all.
  void announce(const RunResult& result, std::int64_t done, std::int64_t total);
  void write_results();
  void write_report();
  [[noreturn]] void interrupt();

  Comparison comparison_;
  RunMaker maker_;
  std::int64_t runs_done_ = 0, runs_to_do_ = 0;  // of this invocation
  WallClock::time_point start_ = WallClock::now(), first_run_ = start_;
  double seconds_before_ = 0;  // of earlier invocations
};

}  // namespace cogwheel::compare
