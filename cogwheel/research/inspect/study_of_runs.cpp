#include "cogwheel/research/inspect/study_of_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::inspect {
namespace {

namespace fs = std::filesystem;

struct LoadedRun {
  StudiedRun run;
  std::string checkpoint;  // SHA-256
};

std::shared_ptr<const runs::NamedPass> load_pass(const StudiedRun& run, const runs::RunFolder& folder,
                                                 const fs::path& checkpoint) {
  const runs::ModelEntry& entry = run.config.model.entry();
  if (entry.pass == nullptr)
    throw UsageError(expected_got(run.name, "a run whose model a study can read", "one of " + run.config.task.name));
  auto pass = std::make_shared<runs::NamedPass>(entry.pass(run.config));
  runs::load_weights_of(*pass->module, run.config, folder, checkpoint);
  return pass;
}

LoadedRun load_run(const RunToStudy& given, const StudyEntry& entry, const std::optional<std::string>& text) {
  const runs::RunCheckpoint place = runs::find_checkpoint(given.path);
  const runs::RunFolder& folder = place.folder;
  runs::RunConfig config = runs::load_config(folder.config_path());
  const std::string before = sha256_of_file(place.file);
  LoadedRun loaded{
      .run = {.name = given.name, .checkpoint = place.file, .kind = given.kind, .config = std::move(config)},
      .checkpoint = before};
  const bool other = loaded.run.config.model.get_if<tasks::language::LanguageModelOptions>() == nullptr;
  if (other && entry.asks == Asked::any_models)
    loaded.run.pass = load_pass(loaded.run, folder, place.file);
  else if (entry.asks != Asked::read_by_the_study)
    loaded.run.model = tasks::language::load_language_model(folder, place.file);
  if (sha256_of_file(place.file) != before)
    throw Error(expected_got(given.path.string(), "a checkpoint that stays as it is", "one that changed meanwhile"));
  if (fs::exists(folder.tokenizer_path())) loaded.run.tokenizer = text::load_tokenizer(folder.tokenizer_path());
  if (fs::exists(folder.metrics_path()))
    for (runs::StepReport& report : runs::read_metrics(folder.metrics_path()))
      if (!report.heads.empty()) loaded.run.history.push_back(std::move(report));
  if (entry.reads_text && loaded.run.model != nullptr)
    loaded.run.text = text ? tokens_of_text(loaded.run, *text, given.name + ": --text")
                           : tokens_of_text(loaded.run, study_text, given.name + ": the text of the study");
  if (entry.reads_held_out || loaded.run.pass != nullptr)
    loaded.run.task = compare::task_of_run(loaded.run.config, folder.path());
  return loaded;
}

}  // namespace

FinishedStudy study_of_runs(const StudyEntry& entry, const LabParameters& parameters,
                            const std::vector<RunToStudy>& runs, const std::optional<std::string>& text) {
  const auto begin = WallClock::now();
  FinishedStudy study{.study = &entry, .parameters = parameters, .cpu = compare::this_machine().cpu};
  std::vector<StudiedRun> loaded;
  for (const RunToStudy& each : runs) {
    LoadedRun run = load_run(each, entry, text);
    const auto same = std::find(study.checkpoints.begin(), study.checkpoints.end(), run.checkpoint);
    if (same != study.checkpoints.end())
      throw UsageError(
          expected_got("runs", "each once",
                       fmt::format("{} and {}, which are the same",
                                   runs[static_cast<std::size_t>(same - study.checkpoints.begin())].path.string(),
                                   each.path.string())));
    study.runs.push_back(each.name);
    study.checkpoints.push_back(run.checkpoint);
    study.mechanisms.push_back(runs::common(std::as_const(run.run.config.model)).mechanism);
    loaded.push_back(std::move(run.run));
  }
  study.result = entry.run(parameters, loaded);
  study.seconds = seconds_since(begin);
  return study;
}

void write_study(const FinishedStudy& study, const fs::path& folder) {
  remove_files(folder, files_of_study(folder));  // of another study, which has other tables
  for (const StudyTable& table : study.result.tables)
    write_file(folder / (table.file + ".csv"), study_csv(table.table));
  write_file(folder / study_json_file, study_json(study));
  write_file(folder / study_page_file, study_page(study));
}

}  // namespace cogwheel::inspect
