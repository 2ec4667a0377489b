#include "cogwheel/runs/training/kept_checkpoints.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::runs {
namespace fs = std::filesystem;

namespace {

constexpr const char* best_name = "best";

// By their step, the newest first.
std::map<std::int64_t, fs::path, std::greater<>> numbered_checkpoints(const RunFolder& folder) {
  std::map<std::int64_t, fs::path, std::greater<>> files;
  std::error_code problem;
  for (fs::directory_iterator entry(folder.checkpoints_path(), problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string step = entry->path().stem().string();
    if (entry->path().extension() == checkpoint_extension && !step.empty() && step.size() < 18 &&
        step.find_first_not_of("0123456789") == std::string::npos)
      files[std::stoll(step)] = entry->path();
  }
  return files;
}

fs::path path_of(const RunFolder& folder, const std::string& name) {
  return folder.checkpoints_path() / (name + checkpoint_extension);
}

}  // namespace

void keep_checkpoint(const TrainingRun& run, const RunFolder& folder) {
  make_folder(folder.checkpoints_path());
  const fs::path path = path_of(folder, std::to_string(run.steps_done()));
  run.save(path);
  link_file(path, folder.checkpoint_path());
  std::int64_t kept = 0;
  for (const auto& [step, file] : numbered_checkpoints(folder)) {
    std::error_code problem;
    // Those of later steps are from before a return to an earlier one.
    if (step > run.steps_done() || ++kept > run.options().keep_checkpoints) fs::remove(file, problem);
  }
}

void keep_as_best(const RunFolder& folder) {
  make_folder(folder.checkpoints_path());
  link_file(folder.checkpoint_path(), path_of(folder, best_name));
}

std::vector<std::string> load_newest(TrainingRun& run, const RunFolder& folder,
                                     const std::set<std::string>& may_differ) {
  std::vector<fs::path> candidates{folder.checkpoint_path()};
  for (const auto& [step, file] : numbered_checkpoints(folder))
    if (std::error_code problem; !fs::equivalent(file, folder.checkpoint_path(), problem)) candidates.push_back(file);
  std::vector<std::string> told;
  std::optional<DamagedFile> first;
  for (const fs::path& candidate : candidates) {
    try {
      std::vector<std::string> differences = run.load(candidate, may_differ);
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
