#include "cogwheel/runs/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::runs {
namespace fs = std::filesystem;

namespace {

// "a comparison, whose runs are runs/a/trained/cog-seed-1, …".
std::string comparison_text(const fs::path& folder) {
  constexpr std::size_t most = 6;
  std::vector<std::string> runs;
  std::error_code problem;
  for (fs::directory_iterator entry(folder / trained_folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (folder_kind(entry->path()) == run_kind) runs.push_back(entry->path().string());
  std::sort(runs.begin(), runs.end());
  if (runs.empty()) return "a comparison without runs";
  std::string text = "a comparison, whose runs are ";
  for (std::size_t index = 0; index < std::min(most, runs.size()); ++index)
    text += (index == 0 ? "" : ", ") + runs[index];
  return runs.size() > most ? text + " and " + std::to_string(runs.size() - most) + " more" : text;
}

}  // namespace

fs::path new_run_path(std::string_view name) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &local);
  const fs::path path = fs::path("runs") / (std::string(date) + "-" + std::string(name));
  fs::path free = path;
  for (int number = 2; fs::exists(free); ++number) free = path.string() + "-" + std::to_string(number);
  return free;
}

const std::vector<std::string>& asset_files() {
  static const std::vector<std::string> names{tokenizer_file, text_file, strokes_file, classes_file,
                                              chat_template_file};
  return names;
}

const std::vector<std::string>& run_files() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{
        "config.toml",     samples_file,         classifier_file,      "metrics.jsonl",   "checkpoint.safetensors",
        "inspection.json", evaluation_json_file, evaluation_page_file, harness_json_file, harness_page_file,
        "samples.jsonl",   "changes.jsonl",      "spikes.jsonl"};
    all.insert(all.end(), asset_files().begin(), asset_files().end());
    return all;
  }();
  return names;
}

namespace {

// Also unfinished ones.
std::vector<fs::path> checkpoint_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (const fs::path kind = entry->path().extension(); kind == checkpoint_extension || kind == unfinished_extension)
      files.push_back(entry->path());
  return files;
}

}  // namespace

void remove_run_files(const fs::path& folder) {
  remove_files(folder, run_files());
  const fs::path checkpoints = folder / checkpoints_folder;
  std::error_code problem;
  for (const fs::path& file : checkpoint_files(checkpoints)) fs::remove(file, problem);
  fs::remove(checkpoints, problem);  // unless somebody else put something into it
}

namespace {

// A folder's kind; a run may lack the marker, which copying with a pattern leaves out.
std::string kind_of_result(const fs::path& folder) {
  try {
    RunFolder::open(folder);
    return std::string(run_kind);
  } catch (const Error&) {
    return folder_kind(folder);
  }
}

}  // namespace

void expect_no_run_file(const fs::path& out, std::string_view what) {
  std::error_code problem;
  // Of "a/b/" the folder is a/b, not what lies in it.
  const fs::path place = out.has_filename() ? out : out.parent_path();
  const std::string around = kind_of_result(place.has_parent_path() ? place.parent_path() : fs::path("."));
  const std::string name = place.filename().string(), own = kind_of_result(place);
  const bool named_by_runs = std::find(run_files().begin(), run_files().end(), name) != run_files().end();
  const bool kept = around == run_kind ? named_by_runs && name != samples_file
                                       : !around.empty() && fs::exists(fs::symlink_status(place, problem));
  if (!kept && name != folder_marker && own.empty()) return;
  const std::string whose = !own.empty() ? own : !around.empty() ? around : std::string(run_kind);
  throw UsageError(expected_got(what, "a place of its own, not the files of the " + whose, out.string()));
}

void point_latest_at(const fs::path& folder) {
  std::error_code problem;
  const fs::path runs = fs::weakly_canonical("runs", problem), target = fs::weakly_canonical(folder, problem);
  if (problem || target.parent_path() != runs) return;
  // Created under another name and renamed, so that the link is never missing. A failure here is no reason to stop.
  const fs::path made = runs / (".latest." + std::to_string(::getpid()));
  fs::create_directory_symlink(target.filename(), made, problem);
  if (!problem) fs::rename(made, runs / "latest", problem);
}

RunFolder RunFolder::create(const fs::path& folder, const RunConfig& config, const std::vector<RunFile>& files,
                            bool overwrite) {
  RunFolder run(folder);
  run.lock_ = take_folder(folder, run_kind, overwrite);
  remove_run_files(folder);
  // First, so that a run which is killed from here on can be resumed.
  write_file(run.config_path(), to_toml(config));
  run.write(files);
  point_latest_at(folder);
  return run;
}

RunFolder RunFolder::create_whole(const fs::path& folder, const RunConfig& config, const std::vector<RunFile>& files,
                                  const std::function<void(const RunFolder&)>& save, bool overwrite) {
  const bool there = path_exists(folder);
  try {
    RunFolder run(folder);
    run.lock_ = take_folder(folder, run_kind, overwrite);
    remove_run_files(folder);
    try {
      save(run);
      run.write(files);
      write_file(run.config_path(), to_toml(config));
    } catch (...) {
      remove_run_files(folder);
      throw;
    }
    point_latest_at(folder);
    return run;
  } catch (...) {
    if (!there) {
      std::error_code problem;
      fs::remove(folder / folder_marker, problem);
      fs::remove(folder, problem);  // unless somebody else put something into it
    }
    throw;
  }
}

void RunFolder::write(const std::vector<RunFile>& files) const {
  for (const RunFile& file : files)
    if (std::find(run_files().begin(), run_files().end(), file.name) == run_files().end())
      throw std::logic_error(expected_got("run folder: file", "a name of run_files", file.name));
  for (const RunFile& file : files) write_file(path_ / file.name, file.content);
}

std::map<std::int64_t, fs::path, std::greater<>> RunFolder::numbered_checkpoints() const {
  std::map<std::int64_t, fs::path, std::greater<>> files;
  for (const fs::path& file : checkpoint_files(checkpoints_path())) {
    const std::string step = file.stem().string();
    if (file.extension() == checkpoint_extension && !step.empty() && step.size() < 18 &&
        step.find_first_not_of("0123456789") == std::string::npos)
      files[std::stoll(step)] = file;
  }
  return files;
}

bool RunFolder::has_checkpoint() const {
  std::error_code problem;
  return fs::exists(newest_path(), problem) || !numbered_checkpoints().empty();
}

RunFolder RunFolder::open(const fs::path& path) {
  if (path.empty()) throw UsageError(expected_got("run", "the folder of a run", ""));
  std::error_code problem;
  const bool file = path.extension() == checkpoint_extension && !fs::is_directory(path, problem);
  if (file && !fs::exists(path, problem)) throw Error(expected_got(path.string(), "a checkpoint", "no such file"));
  const fs::path around = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool kept = fs::absolute(around, problem).lexically_normal().filename() == checkpoints_folder;
  const fs::path folder = !file ? path : kept ? (around / "..").lexically_normal() : around;
  RunFolder run(folder);
  if (file) run.chosen_ = path;
  for (const auto& needed : {run.config_path(), run.checkpoint_path()})
    if (!fs::exists(needed, problem))
      throw Error(expected_got(folder.string(), "the folder of a run",
                               folder_kind(folder) == comparison_kind ? comparison_text(folder)
                                                                      : "no " + needed.filename().string() + " in it"));
  return run;
}

RunFolder RunFolder::resume(const fs::path& folder) {
  // A run that was killed before its first checkpoint begins again.
  std::error_code unknown;
  const bool begun = folder_kind(folder) == run_kind && fs::exists(folder / "config.toml", unknown);
  RunFolder run = begun ? RunFolder(folder) : open(folder);
  run.lock_ = std::make_shared<const FolderLock>(folder, run_kind);
  remove_leftovers(folder, run_files());
  for (const fs::path& file : checkpoint_files(run.checkpoints_path()))
    if (std::error_code problem; file.extension() == unfinished_extension) fs::remove(file, problem);
  return run;
}

RunFolder RunFolder::copy(const RunFolder& from, const fs::path& folder,
                          const std::function<void(const RunFolder&)>& save) {
  RunFolder run(folder);
  run.lock_ = take_folder(folder, run_kind, false);
  save(run);
  std::error_code problem;
  if (const fs::path best = from.checkpoints_path() / best_checkpoint; fs::exists(best, problem))
    link_file(best, run.checkpoints_path() / best_checkpoint);
  const auto copied = [&](const fs::path& file) {
    const fs::path source = from.path() / file.filename();
    if (fs::is_regular_file(source, problem)) write_file(file, read_file(source));
  };
  for (const std::string& name : run_files())
    if (const fs::path file = folder / name; file != run.newest_path() && file != run.config_path()) copied(file);
  copied(run.config_path());
  point_latest_at(folder);
  return run;
}

RunCheckpoint find_checkpoint(const fs::path& path) {
  RunFolder folder = RunFolder::open(path);
  return {folder, folder.checkpoint_path()};
}

std::string name_of_run(const fs::path& path) {
  std::error_code problem;
  fs::path whole = fs::absolute(path, problem).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const fs::path name = whole.filename();
  return (fs::is_regular_file(path, problem) ? whole.parent_path().filename() / name : name).string();
}

void load_weights_of(torch::nn::Module& model, const RunConfig& config, const RunFolder& folder) {
  load_weights_of(model, config, folder, folder.checkpoint_path());
}

void load_weights_of(torch::nn::Module& model, const RunConfig& config, const RunFolder& folder, const fs::path& path) {
  const SafeTensorsFile checkpoint(path);
  expect_whole(checkpoint);
  expect_own_tokenizer(checkpoint, folder);
  expect_same(config, recorded_configuration(checkpoint), path.string(), "model.");
  load_weights(model, checkpoint, prefix_in_use(checkpoint));
}

}  // namespace cogwheel::runs
