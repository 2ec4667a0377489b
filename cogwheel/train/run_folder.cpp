#include "cogwheel/train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <system_error>

#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "cogwheel/train/checkpoint.h"

namespace cogwheel {
namespace fs = std::filesystem;

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

void prepare_folder(const fs::path& folder, bool overwrite, const std::vector<std::string>& owned) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem || !fs::is_directory(folder))
    throw Error(expected_got(folder.string(), "a folder that can be made",
                             problem ? problem.message() : "a file of that name"));
  const fs::directory_iterator entries(folder, problem);
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  if (entries != fs::directory_iterator() && !overwrite)
    throw UsageError(expected_got(folder.string(), "a new or empty folder (or --overwrite, or --resume)",
                                  "one that holds " + entries->path().filename().string()));
  // Written and dropped: tells now, not after an hour, that nothing can be written here.
  AtomicFile{folder / "probe"};
  for (const auto& name : owned) {
    fs::remove_all(folder / name, problem);
    if (problem) throw Error(expected_got((folder / name).string(), "a file that can be removed", problem.message()));
  }
}

void point_latest_at(const fs::path& folder) {
  std::error_code problem;
  const fs::path runs = fs::weakly_canonical("runs", problem), target = fs::weakly_canonical(folder, problem);
  if (problem || target.parent_path() != runs) return;
  // Made beside and renamed, so that the link is never missing. A link that cannot be made is no reason to stop.
  const fs::path made = runs / (".latest." + std::to_string(::getpid()));
  fs::create_directory_symlink(target.filename(), made, problem);
  if (!problem) fs::rename(made, runs / "latest", problem);
}

RunFolder RunFolder::create(const fs::path& folder, const RunConfig& config, const Tokenizer& tokenizer,
                            bool overwrite) {
  RunFolder run(folder);
  prepare_folder(folder, overwrite, {"config.toml", "tokenizer.json", "metrics.jsonl", "checkpoint.safetensors"});
  save_tokenizer(tokenizer, run.tokenizer_path());
  write_file(run.config_path(), to_toml(config));
  point_latest_at(folder);
  return run;
}

RunFolder RunFolder::open(const fs::path& folder) {
  RunFolder run(folder);
  for (const auto& path : {run.config_path(), run.tokenizer_path(), run.checkpoint_path()}) {
    std::error_code problem;
    if (!fs::exists(path, problem))
      throw Error(expected_got(folder.string(), "the folder of a run", "no " + path.filename().string() + " in it"));
  }
  return run;
}

TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks) {
  MetricsWriter metrics(folder.metrics_path(), run.steps_done());
  const auto save = [&] { run.save(folder.checkpoint_path()); };
  // From the first step on there is a good state to come back to.
  if (run.steps_done() == 0) save();
  return run.train({.report =
                        [&](const StepReport& report) {
                          metrics.write(report);
                          if (hooks.report) hooks.report(report);
                        },
                    .checkpoint =
                        [&] {
                          save();
                          if (hooks.checkpoint) hooks.checkpoint();
                        },
                    .stop = hooks.stop});
}

LanguageModel load_model(const RunFolder& folder) {
  LanguageModel model(load_config(folder.config_path()).model);
  load_weights(model, load_safetensors(folder.checkpoint_path()), folder.checkpoint_path());
  return model;
}

}  // namespace cogwheel
