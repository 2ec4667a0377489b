// A run on disk: config.toml, tokenizer.json, metrics.jsonl, checkpoint.safetensors.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/train/metrics.h"
#include "cogwheel/train/run_config.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {

// runs/<date-time>-<name>, not yet there.
std::filesystem::path new_run_path(std::string_view name);

// Makes the folder ready for new results. Throws UsageError where it holds something already, unless `overwrite`, which
// removes the files and folders in `owned` and nothing else; Error where it cannot be written.
void prepare_folder(const std::filesystem::path& folder, bool overwrite, const std::vector<std::string>& owned);

// Points runs/latest at a folder below runs/; a folder elsewhere leaves it as it is.
void point_latest_at(const std::filesystem::path& folder);

class RunFolder {
 public:
  // A new run: prepares the folder, writes config.toml and tokenizer.json.
  static RunFolder create(const std::filesystem::path& folder, const RunConfig& config, const Tokenizer& tokenizer,
                          bool overwrite = false);
  // One that is there; Error where it is none.
  static RunFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path tokenizer_path() const { return path_ / "tokenizer.json"; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoint_path() const { return path_ / "checkpoint.safetensors"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Trains in a folder: hooks.report after a line of metrics.jsonl, a checkpoint wherever one is due, hooks.checkpoint
// after it. Lines after the run's step, left from before it was resumed, are dropped.
TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks = {});

// The model of a run with the weights of its checkpoint, for sampling and pictures.
LanguageModel load_model(const RunFolder& folder);

}  // namespace cogwheel
