// A comparison at work in its folder: results.json (which is also what resuming needs), results.csv, report.html, and
// one folder per run below trained/.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "cogwheel/cli/progress.h"
#include "cogwheel/data/dataset.h"
#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

class CompareJob {
 public:
  CompareJob(Comparison comparison, std::shared_ptr<const Dataset> data, std::filesystem::path folder);

  // What --overwrite may remove.
  static const std::vector<std::string>& owned_files();
  // Throws Error where the folder holds none.
  static Comparison read(const std::filesystem::path& folder);

  // Every trial and run that is not done yet, seed by seed, so that what is there at any time is paired as far as it
  // can be. Writes the files at the end. Throws Interrupted after Ctrl-C, Error where no run finished.
  void run();

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
  std::filesystem::path run_folder(const MechanismPlan& plan, std::int64_t seed) const;

  Comparison comparison_;
  std::shared_ptr<const Dataset> data_;
  std::filesystem::path folder_;
  Progress progress_;
  Clock::time_point start_ = Clock::now(), first_run_ = start_;
  double seconds_before_ = 0;   // of earlier sittings
  std::int64_t runs_here_ = 0;  // finished in this one
};

}  // namespace cogwheel
