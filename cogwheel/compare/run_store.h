// Trained runs of several comparisons, found by what they are: what two of them ask for is trained once.
//
// DIR/<hash>/ has run/, the folder of the run, and result.json, what its comparison recorded of it, once it is done.
// DIR/trials/<hash>.json is what a short run found that tried a learning rate. The hash is of the configuration with
// the hashes of its data, of how many items the result was measured on, and of the version of Cogwheel.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::compare {

inline constexpr std::string_view stored_run_kind = "stored run";

class StoredRun {
 public:
  // Takes the place, whose folder is made where it is missing; calls `waiting` again and again while another process
  // has it.
  StoredRun(std::filesystem::path place, const std::function<void()>& waiting);

  // Of the run in a place.
  static std::filesystem::path run_path(const std::filesystem::path& place) { return place / "run"; }
  std::filesystem::path run_path() const { return run_path(place_); }
  // The result of the finished run; none where it is not finished. Throws Error where it is damaged, or of another
  // configuration.
  std::optional<RunResult> result(const runs::RunConfig& config, const runs::TaskDescription& task) const;
  void keep(const RunResult& result) const;
  // Leaves nothing of the run.
  void clear() const;
  // The same once for each wish; each time where it has no name.
  void clear_for(const std::string& wish) const;

 private:
  std::filesystem::path place_;
  FolderLock lock_;
};

class RunStore {
 public:
  // `version`: of Cogwheel. `retrain`: finished runs are made anew, for a wish with a name once, whichever process
  // begins or goes on with them. The folder is made by the first run that is put into it; throws Error now where that
  // could not be.
  RunStore(const std::filesystem::path& folder, std::string version, bool retrain = false, std::string wish = {});

  // The place of a run of this configuration, completed by its task.
  std::filesystem::path place(const runs::RunConfig& config, std::int64_t evaluated_items) const;
  // Whether it is finished there, and would be taken.
  bool holds(const runs::RunConfig& config, std::int64_t evaluated_items) const;
  // What a trial of this configuration found; none where it was not made, where it is damaged, or where all is made
  // anew. It takes no lock: two processes at one trial find the same.
  std::optional<TuningTrial> trial(const runs::RunConfig& config, std::int64_t evaluated_items) const;
  void keep(const runs::RunConfig& config, std::int64_t evaluated_items, const TuningTrial& trial) const;
  bool retrains() const { return retrain_; }
  const std::string& wish() const { return wish_; }
  const std::string& name() const { return name_; }  // of the folder, as it was given
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& version() const { return version_; }

 private:
  std::string hash(const runs::RunConfig& config, std::int64_t evaluated_items) const;
  std::filesystem::path trial_file(const runs::RunConfig& config, std::int64_t evaluated_items) const;

  std::string name_;
  std::filesystem::path folder_;
  std::string version_;
  bool retrain_;
  std::string wish_;
};

}  // namespace cogwheel::compare
