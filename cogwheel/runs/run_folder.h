// A run on disk: config.toml, metrics.jsonl, checkpoint.safetensors, checkpoints/, the files of the task, such as
// tokenizer.json, what happened on the way (samples.jsonl, changes.jsonl, spikes.jsonl), and the marker of the folder
// (core/files/folder_lock.h).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

// runs/<date-time>-<name>, a path that does not exist yet.
std::filesystem::path new_run_path(std::string_view name);

// The kind of folder in the marker.
inline constexpr std::string_view run_kind = "run";

// The kind of a comparison, and the folder in it that holds those of its runs.
inline constexpr std::string_view comparison_kind = "comparison";
inline constexpr const char* trained_folder = "trained";

// What `cogwheel evaluate` writes.
inline constexpr const char *evaluation_json_file = "evaluation.json", *evaluation_page_file = "evaluation.html";

// What `cogwheel evaluate --harness` writes.
inline constexpr const char *harness_json_file = "harness.json", *harness_page_file = "harness.html";

// Images that were drawn, where nobody says where they go.
inline constexpr const char* samples_file = "samples.png";

// What measures drawn images, kept because its training takes minutes.
inline constexpr const char* classifier_file = "classifier.safetensors";

// Of labelled images and sentences: the names of the classes.
inline constexpr const char* classes_file = "classes.json";

// Of handwriting: the scale of its offsets.
inline constexpr const char* strokes_file = "strokes.json";

// Files of tasks that learn from a text: its tokenizer, and which text it was (text/text_record.h).
inline constexpr const char *tokenizer_file = "tokenizer.json", *text_file = "text.json";

// Of an imported language model: {"chat_template": …} as its folder had it, a text or a list of named ones.
inline constexpr const char* chat_template_file = "chat_template.json";

// The folder of checkpoints in that of a run.
inline constexpr const char *checkpoints_folder = "checkpoints", *checkpoint_extension = ".safetensors",
                            *best_checkpoint = "best.safetensors";

// The names of all files that this program may write into the folder of a run.
const std::vector<std::string>& run_files();
// Those of them that belong to the model and its data, and not to a training or to what was measured.
const std::vector<std::string>& asset_files();
// Removes them, and the checkpoints that are kept.
void remove_run_files(const std::filesystem::path& folder);

// Points runs/latest at a folder below runs/; for a folder elsewhere it stays unchanged.
void point_latest_at(const std::filesystem::path& folder);

struct RunFile {
  std::string name, content;
};

// Throws UsageError, which begins with `what`, where `out` is the folder of a run or of another result, such as a
// comparison; one of the files that a run consists of, but for the pictures that it may be asked for; or a file of
// another result. Whoever lets a user name a place to write to asks this first. (A link to such a file is no such file:
// it is the link that is replaced.)
void expect_no_run_file(const std::filesystem::path& out, std::string_view what);

// Of the folder of a run, which need not be there.
inline std::filesystem::path metrics_path(const std::filesystem::path& run) { return run / "metrics.jsonl"; }

class RunFolder {
 public:
  // A new run: locks the folder, replaces its files if `overwrite`, writes config.toml, then `files`. Throws what
  // take_folder throws.
  static RunFolder create(const std::filesystem::path& folder, const RunConfig& config,
                          const std::vector<RunFile>& files, bool overwrite = false);
  // A new run that is whole at once, as one that is not trained here: `save` writes its checkpoint, config.toml comes
  // last, and where something cannot be written nothing is left. Throws what take_folder throws.
  static RunFolder create_whole(const std::filesystem::path& folder, const RunConfig& config,
                                const std::vector<RunFile>& files, const std::function<void(const RunFolder&)>& save,
                                bool overwrite = false);
  // An existing run, for reading: its folder, or one of its checkpoints, whose file is named. Throws Error where there
  // is none, which names the runs of a comparison.
  static RunFolder open(const std::filesystem::path& path);
  // An existing run, for resuming, which may lack a checkpoint if it was killed before the first: locks it and removes
  // the unfinished files of a killed process. Throws Error where another process is using it.
  static RunFolder resume(const std::filesystem::path& folder);

  // A new run with the files of another but its checkpoints, of which it has the best alone; config.toml comes last, so
  // that a copy that was not finished is none. Whoever copies saves a checkpoint first, by `save`. Throws what
  // take_folder throws.
  static RunFolder copy(const RunFolder& from, const std::filesystem::path& folder,
                        const std::function<void(const RunFolder&)>& save);

  // Files whose names are among run_files.
  void write(const std::vector<RunFile>& files) const;

  const std::filesystem::path& path() const { return path_; }
  // Also an older one alone.
  bool has_checkpoint() const;
  static bool holds_checkpoint(const std::filesystem::path& folder) { return RunFolder(folder).has_checkpoint(); }
  // checkpoints/<step>.safetensors by their step, the newest first.
  std::map<std::int64_t, std::filesystem::path, std::greater<>> numbered_checkpoints() const;
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path tokenizer_path() const { return path_ / tokenizer_file; }
  std::filesystem::path metrics_path() const { return runs::metrics_path(path_); }
  std::filesystem::path samples_path() const { return path_ / "samples.jsonl"; }
  std::filesystem::path changes_path() const { return path_ / "changes.jsonl"; }
  std::filesystem::path spikes_path() const { return path_ / "spikes.jsonl"; }
  // The one that was named, else the newest.
  std::filesystem::path checkpoint_path() const { return chosen_.empty() ? newest_path() : chosen_; }
  std::filesystem::path newest_path() const { return path_ / "checkpoint.safetensors"; }
  // That and others that are kept, named by their step (training/kept_checkpoints.h).
  std::filesystem::path checkpoints_path() const { return path_ / checkpoints_folder; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_, chosen_;
  std::shared_ptr<const FolderLock> lock_;  // null for a run that is only read
};

// What a command names to read a model.
struct RunCheckpoint {
  RunFolder folder;
  std::filesystem::path file;
};
// Throws what RunFolder::open throws.
RunCheckpoint find_checkpoint(const std::filesystem::path& path);
// As readers tell runs apart: the folder's name, and the file's where one is named.
std::string name_of_run(const std::filesystem::path& path);

// Fills a model with the weights of a run's checkpoint, averaged ones where the run has them. Throws Error where the
// configuration of the model or the tokenizer in the folder differs from that of the checkpoint, or the file is
// damaged.
void load_weights_of(torch::nn::Module& model, const RunConfig& config, const RunFolder& folder);
// The same of another checkpoint of the run, such as a copy of an earlier one.
void load_weights_of(torch::nn::Module& model, const RunConfig& config, const RunFolder& folder,
                     const std::filesystem::path& checkpoint);

}  // namespace cogwheel::runs
