#include "cogwheel/runs/training/kept_checkpoints.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <system_error>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::runs {
namespace fs = std::filesystem;

namespace {

fs::path path_of(const RunFolder& folder, const std::string& name) {
  return folder.checkpoints_path() / (name + checkpoint_extension);
}

}  // namespace

void keep_checkpoint(const TrainingRun& run, const RunFolder& folder, bool is_best) {
  make_folder(folder.checkpoints_path());
  const fs::path path = path_of(folder, std::to_string(run.steps_done()));
  run.save(path);
  if (is_best) link_file(path, folder.checkpoints_path() / best_checkpoint);
  link_file(path, folder.newest_path());
  std::int64_t kept = 0;
  for (const auto& [step, file] : folder.numbered_checkpoints()) {
    std::error_code problem;
    // Those of later steps are from before a return to an earlier one.
    if (step > run.steps_done() || ++kept > run.options().keep_checkpoints) fs::remove(file, problem);
  }
}

std::vector<std::string> load_checkpoint(TrainingRun& run, const RunFolder& folder, const fs::path& path,
                                         const std::set<std::string>& may_differ) {
  expect_own_tokenizer(SafeTensorsFile(path), folder);
  return run.load(path, may_differ);
}

std::vector<std::string> load_newest(TrainingRun& run, const RunFolder& folder, const std::set<std::string>& may_differ,
                                     std::int64_t before) {
  std::error_code problem;
  std::vector<fs::path> candidates;
  const bool any_step = before == std::numeric_limits<std::int64_t>::max();
  if (any_step && fs::exists(folder.newest_path(), problem)) candidates.push_back(folder.newest_path());
  for (const auto& [step, file] : folder.numbered_checkpoints())
    if (step < before && (candidates.empty() || !fs::equivalent(file, candidates.front(), problem)))
      candidates.push_back(file);
  if (candidates.empty() && !any_step) return load_newest(run, folder, may_differ);
  if (candidates.empty()) throw Error(expected_got(folder.path().string(), "a checkpoint", "none"));
  std::vector<std::string> told;
  std::optional<DamagedFile> first;
  for (const fs::path& candidate : candidates) {
    try {
      const std::vector<std::string> differences = load_checkpoint(run, folder, candidate, may_differ);
      if (first) told.push_back("going on from " + candidate.string() + ", step " + std::to_string(run.steps_done()));
      told.insert(told.end(), differences.begin(), differences.end());
      return told;
    } catch (const DamagedFile& error) {
      if (!first) first = error;
      told.emplace_back(error.what());
    }
  }
  throw *first;
}

}  // namespace cogwheel::runs
