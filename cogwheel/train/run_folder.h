// A run on disk: config.toml, tokenizer.json, metrics.jsonl, checkpoint.safetensors, beside the marker of the folder
// (core/folder_lock.h).
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/folder_lock.h"
#include "cogwheel/train/run_config.h"
#include "cogwheel/train/training_run.h"

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

class RunFolder {
 public:
  // A new run: locks the folder, replaces its files where `overwrite`, writes config.toml and tokenizer.json. Throws
  // what take_folder does.
  static RunFolder create(const std::filesystem::path& folder, const RunConfig& config, const Tokenizer& tokenizer,
                          bool overwrite = false);
  // One that is there, to read; Error where it is none.
  static RunFolder open(const std::filesystem::path& folder);
  // One that is there, to go on with: locked, without what a process that was killed left half written. Error where
  // another process is at work on it.
  static RunFolder resume(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path tokenizer_path() const { return path_ / "tokenizer.json"; }
  std::filesystem::path text_path() const { return path_ / "text.json"; }  // not of a run of a comparison
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoint_path() const { return path_ / "checkpoint.safetensors"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::shared_ptr<const FolderLock> lock_;  // none where it is only read
};

// Trains in a folder: hooks.report after a line of metrics.jsonl, a checkpoint wherever one is due, hooks.checkpoint
// after it. Lines after the run's step, left from before it was resumed, are dropped; Error where lines before it are
// missing.
TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks = {});

// The model of a run with the weights of its checkpoint, for sampling and pictures. Throws Error where config.toml has
// another model than the checkpoint.
std::shared_ptr<LanguageModel> load_model(const RunFolder& folder);

}  // namespace cogwheel
