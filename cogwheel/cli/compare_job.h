// A comparison at work in its folder.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "cogwheel/cli/compare_folder.h"
#include "cogwheel/cli/progress.h"
#include "cogwheel/data/dataset.h"
#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

class CompareJob {
 public:
  CompareJob(Comparison comparison, std::shared_ptr<const Dataset> data, CompareFolder folder);

  // Every trial and run that is not done yet, seed by seed, so that what is there at any time is paired as far as it
  // can be. Writes the files at the end. Throws Interrupted after Ctrl-C.
  void run();
  // Throws Error where a run failed, or none finished.
  void expect_success() const;

  const Comparison& comparison() const { return comparison_; }

 private:
  using Clock = std::chrono::steady_clock;

  void tune(MechanismPlan& plan);
  RunResult train(const MechanismPlan& plan, std::int64_t seed);
  void record(RunResult result);
  void announce(const RunResult& result, std::int64_t done, std::int64_t total);
  void write_results();
  void write_report();
  [[noreturn]] void interrupt();

  Comparison comparison_;
  std::shared_ptr<const Dataset> data_;
  CompareFolder folder_;
  Progress progress_;
  Clock::time_point start_ = Clock::now(), first_run_ = start_;
  double seconds_before_ = 0;   // of earlier sittings
  std::int64_t runs_here_ = 0;  // finished in this one
};

}  // namespace cogwheel
