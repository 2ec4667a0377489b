// A comparison on disk: results.json (from which it is also resumed), results.csv, report.html, text.json if the task
// has a text, and one folder per run below trained/.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::compare {

// How many held-out items the comparison measures of which this folder is a run, as its results.json says; none for the
// folder of a run by itself. Throws Error where that file is damaged.
std::optional<std::int64_t> evaluated_in_comparison(const std::filesystem::path& run);

// The task of an existing run, which measures what the run measures as it trains: of a run of a comparison, the part of
// the held-out items that all runs of it share.
std::shared_ptr<const runs::Task> task_of_run(const runs::RunConfig& config, const std::filesystem::path& run);

// Where the comparison of a folder keeps a run.
std::filesystem::path run_path(const std::filesystem::path& comparison, std::string_view mechanism, std::int64_t seed);

class ComparisonFolder {
 public:
  // A new comparison: locks the folder and, if `overwrite`, removes the files of the previous one. Throws what
  // take_folder throws, for this folder and for each folder that is named like a run of it, before anything is removed.
  static ComparisonFolder create(const std::filesystem::path& path, bool overwrite);
  // An existing comparison, locked for resuming. Throws Error where there is none, or another process is using it.
  static ComparisonFolder resume(const std::filesystem::path& path);

  // An existing comparison, which another process has and for which this one works (work_queue.h).
  static ComparisonFolder join(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path report_path() const { return path_ / "report.html"; }
  std::filesystem::path run_path(const MechanismPlan& plan, std::int64_t seed) const;

  // Makes that path a link to a run elsewhere. Throws Error where something else is there.
  void link_run(const MechanismPlan& plan, std::int64_t seed, const std::filesystem::path& target) const;

  // Throws Error where the file is damaged, or the definition of a mechanism has changed.
  Comparison read() const;
  // Throws Error that names the key if the configuration of an existing run differs from that of the comparison.
  void expect_runs_match(const Comparison& comparison, const RowTasks& tasks) const;

  void write_records(const runs::Task& task) const;  // by which a later reader can tell whether the data has changed
  void write_results(const Comparison& comparison) const;
  // Also writes results.csv. `inspections` are those already in memory; the others are read from the folders of their
  // runs. What cannot be shown of a run is left out and listed in the lines that are returned.
  std::vector<std::string> write_report(const Comparison& comparison,
                                        std::vector<runs::Inspection> inspections = {}) const;

 private:
  explicit ComparisonFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::shared_ptr<const FolderLock> lock_;
};

}  // namespace cogwheel::compare
