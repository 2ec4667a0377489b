#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/research/inspect/study_page.h"
#include "cogwheel/research/inspect/study_text.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

struct InspectArguments {
  std::string study, out;
  std::optional<std::string> text;  // none: that of the study
  std::vector<std::string> runs, assignments;
  bool overwrite = false;
  Definitions definitions;
};

std::string command_of(const InspectArguments& arguments) {
  std::string command = "cogwheel inspect " + arguments.study;
  for (const std::string& run : arguments.runs) command += " " + shell_word(run);
  for (const std::string& assignment : arguments.assignments) command += " --set " + shell_word(assignment);
  if (arguments.text) command += " --text " + shell_word(*arguments.text);
  return command;
}

// As readers tell runs apart: by the folder's name, and by more of the path where two are called the same.
std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(runs::name_of_run(path));
  }
  const std::vector<std::string> last = names;
  for (std::size_t index = 0; index < names.size(); ++index)
    if (std::count(last.begin(), last.end(), last[index]) > 1) names[index] = paths[index];
  return names;
}

void inspect(const InspectArguments& arguments) {
  const inspect::StudyEntry& entry = inspect::find_study(arguments.study, "study");
  if (!entry.reads_text && arguments.text)
    throw UsageError(expected_got("--text", "a study that reads one", entry.name));
  inspect::FinishedStudy study{.study = &entry, .parameters = entry.parameters, .result = {}};
  for (const std::string& assignment : arguments.assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos) throw UsageError(expected_got("--set", "name=value", assignment));
    study.parameters.set(assignment.substr(0, equals), assignment.substr(equals + 1), "--set");
  }
  register_definitions(arguments.definitions);
  std::vector<inspect::StudiedRun> runs;
  study.runs = names_of(arguments.runs);
  for (std::size_t index = 0; index < arguments.runs.size(); ++index) {
    const runs::RunCheckpoint place = runs::find_checkpoint(arguments.runs[index]);
    const runs::RunFolder& folder = place.folder;
    runs::RunConfig config = runs::load_config(folder.config_path());
    const std::string before = sha256_of_file(place.file);
    const auto model = tasks::language::load_language_model(folder, place.file);
    if (sha256_of_file(place.file) != before)
      throw Error(
          expected_got(arguments.runs[index], "a checkpoint that stays as it is", "one that changed meanwhile"));
    const auto same = std::find(study.checkpoints.begin(), study.checkpoints.end(), before);
    if (same != study.checkpoints.end())
      throw UsageError(
          expected_got("runs", "each once",
                       fmt::format("{} and {}, which are the same",
                                   arguments.runs[static_cast<std::size_t>(same - study.checkpoints.begin())],
                                   arguments.runs[index])));
    study.checkpoints.push_back(before);
    study.mechanisms.push_back(config.model.as<tasks::language::LanguageModelOptions>().mechanism);
    const auto tokenizer =
        fs::exists(folder.tokenizer_path()) ? text::load_tokenizer(folder.tokenizer_path()) : nullptr;
    runs.push_back({study.runs[index], std::move(config), model, tokenizer});
    if (fs::exists(folder.metrics_path()))
      for (runs::StepReport& report : runs::read_metrics(folder.metrics_path()))
        if (!report.heads.empty()) runs.back().history.push_back(std::move(report));
    if (entry.reads_text)
      runs.back().text = arguments.text
                             ? inspect::tokens_of_text(runs.back(), *arguments.text, study.runs[index] + ": --text")
                             : inspect::tokens_of_text(runs.back(), inspect::study_text,
                                                       study.runs[index] + ": the text of the study");
  }
  const fs::path folder = arguments.out.empty() ? runs::new_run_path("inspect-" + entry.name) : fs::path(arguments.out);
  expect_room(folder, inspect::study_kind, arguments.overwrite);
  const auto begin = std::chrono::steady_clock::now();
  study.result = entry.run(study.parameters, runs);
  study.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  study.command = command_of(arguments);
  study.created = utc_now();
  study.version = COGWHEEL_VERSION;
  study.cpu = compare::this_machine().cpu;

  const auto lock = take_folder(folder, inspect::study_kind, arguments.overwrite);
  remove_files(folder, inspect::files_of_study(folder));  // of another study, which has other tables
  for (const inspect::StudyTable& table : study.result.tables)
    write_file(folder / (table.file + ".csv"), inspect::study_csv(table.table));
  write_file(folder / inspect::study_json_file, inspect::study_json(study));
  write_file(folder / inspect::study_page_file, inspect::study_page(study));
  runs::point_latest_at(folder);
  for (const std::string& note : study.result.notes) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}\n{}\n", study.result.answer, (folder / inspect::study_page_file).string());
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Ask what the heads of trained models do, and write a page that answers");
  std::string help = "what to ask:";
  for (const inspect::StudyEntry& study : inspect::studies())
    help += fmt::format("\n  {}: {}", study.name, study.question);
  command->add_option("study", arguments->study, help)->required()->type_name("NAME");
  command->add_option("runs", arguments->runs, "folders of runs, or checkpoints in them, beside each other on the page")
      ->required()
      ->type_name("RUN");
  command->add_option("--set", arguments->assignments, "override parameters of the study, as in prompts=200")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--text", arguments->text,
                   "what models read, where the study reads a text; by default one of its own")
      ->type_name("TEXT");
  command->add_option("--out", arguments->out, "folder of the result; by default runs/<date-time>-inspect-<name>")
      ->type_name("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "replace the result that --out holds");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace cogwheel::cli
