// A run on disk: config.toml, metrics.jsonl, checkpoint.safetensors and what the task adds, such as tokenizer.json,
// beside the marker of the folder (core/folder_lock.h).
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/core/folder_lock.h"

namespace cogwheel {

class LanguageModel;

// runs/<date-time>-<name>, not yet there.
std::filesystem::path new_run_path(std::string_view name);

// What the marker calls it.
inline constexpr std::string_view run_kind = "run";

// The names of all files that this program may leave in the folder of a run.
const std::vector<std::string>& run_files();

// Points runs/latest at a folder below runs/; a folder elsewhere leaves it as it is.
void point_latest_at(const std::filesystem::path& folder);

struct RunFile {
  std::string name, content;
};

class RunFolder {
 public:
  // A new run: locks the folder, replaces its files where `overwrite`, writes config.toml and `files`, whose names are
  // of run_files. Throws what take_folder does.
  static RunFolder create(const std::filesystem::path& folder, const RunConfig& config,
                          const std::vector<RunFile>& files, bool overwrite = false);
  // One that is there, to read; Error where it is none.
  static RunFolder open(const std::filesystem::path& folder);
  // One that is there, to go on with: locked, without what a process that was killed left half written. Error where
  // another process is at work on it.
  static RunFolder resume(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path tokenizer_path() const { return path_ / "tokenizer.json"; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoint_path() const { return path_ / "checkpoint.safetensors"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::shared_ptr<const FolderLock> lock_;  // none where it is only read
};

// The model of a run with the weights of its checkpoint, for sampling and pictures. Throws Error where config.toml has
// another model than the checkpoint, or the run is of a task that trains no language model.
std::shared_ptr<LanguageModel> load_language_model(const RunFolder& folder);

}  // namespace cogwheel
