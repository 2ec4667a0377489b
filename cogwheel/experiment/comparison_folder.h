// A comparison on disk: results.json (which is also what resuming needs), results.csv, report.html, text.json where
// the task has a text, and one folder per run below trained/.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/core/folder_lock.h"
#include "cogwheel/evaluate/comparison.h"
#include "cogwheel/train/task.h"

namespace cogwheel {

class ComparisonFolder {
 public:
  // A new comparison: locks the folder, removes the files of the one that was there where `overwrite`. Throws what
  // take_folder does of it and of each folder that is named as a run of it; nothing is removed then.
  static ComparisonFolder create(const std::filesystem::path& path, bool overwrite);
  // One that is there, to go on with: locked. Error where it is none, or another process is at work on it.
  static ComparisonFolder resume(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path report_path() const { return path_ / "report.html"; }
  std::filesystem::path run_path(const MechanismPlan& plan, std::int64_t seed) const;

  // Throws Error where it is damaged, or a mechanism is not what it was.
  Comparison read() const;
  // Throws Error where a run that began is of another configuration than the comparison says: its key is named.
  void expect_own_runs(const Comparison& comparison, const Task& task) const;

  void write_records(const Task& task) const;  // what tells whether the data has changed
  void write_results(const Comparison& comparison) const;
  // And results.csv. `inspections` are those that were made already; the others are read from the folders of their
  // runs. What of single runs cannot be shown is left out, and said in the lines that come back.
  std::vector<std::string> write_report(const Comparison& comparison, std::vector<Inspection> inspections = {}) const;

 private:
  explicit ComparisonFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::shared_ptr<const FolderLock> lock_;
};

}  // namespace cogwheel
