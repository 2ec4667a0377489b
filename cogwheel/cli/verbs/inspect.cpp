#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/verbs/device_option.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/research/inspect/study_of_runs.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

struct InspectArguments {
  std::string study, out, device = "cpu";
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
  if (arguments.device != "cpu") command += " --device " + shell_word(arguments.device);
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
  LabParameters parameters = entry.parameters;
  for (const std::string& assignment : arguments.assignments) parameters.assign(assignment, "--set");
  register_definitions(arguments.definitions);
  place_models_on(arguments.device, "inspect");
  const fs::path folder = arguments.out.empty() ? runs::new_run_path("inspect-" + entry.name) : fs::path(arguments.out);
  expect_room(folder, inspect::study_kind, arguments.overwrite);
  std::vector<inspect::RunToStudy> runs;
  for (const std::string& name : names_of(arguments.runs))
    runs.push_back({.path = arguments.runs[runs.size()], .name = name});
  inspect::FinishedStudy study = inspect::study_of_runs(entry, parameters, runs, arguments.text);
  study.command = command_of(arguments);
  study.created = utc_now();
  study.version = COGWHEEL_VERSION;

  const auto lock = take_folder(folder, inspect::study_kind, arguments.overwrite);
  inspect::write_study(study, folder);
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
  add_device_option(*command, arguments->device);
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace cogwheel::cli
