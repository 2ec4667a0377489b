#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/dry_run.h"
#include "cogwheel/cli/experiments.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/cli/task_files.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/forecast/step_memory.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/training/run_changes.h"
#include "cogwheel/tasks/task_files.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

struct TrainArguments {
  std::string config, out, machine;
  std::vector<std::string> text, corpus, assignments;
  TaskFiles files;
  bool overwrite = false, resume = false, dry_run = false, json = false;
  std::int64_t ranks = 0;
  Definitions definitions;
};

// Throws UsageError where an option and --set name the same data.
void expect_not_set_twice(const TrainArguments& arguments) {
  std::map<std::string, std::string> options;
  if (!arguments.text.empty()) options["data.text"] = "--text";
  if (!arguments.corpus.empty()) options["data.corpus"] = "--corpus";
  for (const tasks::TaskFileOption& option : tasks::task_file_options())
    if (const auto given = arguments.files.find(option.key); given != arguments.files.end() && !given->second.empty())
      options["task." + std::string(option.key)] = option.flag();
  for (const std::string& assignment : arguments.assignments)
    if (const auto given = options.find(assignment.substr(0, assignment.find('='))); given != options.end())
      throw UsageError(expected_got("--set", "no " + given->first + " beside " + given->second, assignment));
  for (const auto& [key, option] : {std::pair("data.text=", "--corpus"), std::pair("data.corpus=", "--text")})
    for (const std::string& assignment : arguments.assignments)
      if (assignment.starts_with(key) && !(option == std::string("--text") ? arguments.text : arguments.corpus).empty())
        throw UsageError(expected_got("--set", std::string("no other data beside ") + option, assignment));
}

// What is for a dry run alone, and what it has no use for.
void expect_use(const TrainArguments& arguments) {
  if (arguments.json && !arguments.dry_run) throw UsageError(expected_got("--json", "--dry-run with it", "none"));
  if (!arguments.machine.empty() && !arguments.dry_run)
    throw UsageError(expected_got("--machine", "--dry-run with it", "none"));
  if (!arguments.dry_run) return;
  if (!arguments.out.empty())
    throw UsageError(expected_got("--out", "no --dry-run, which writes nothing", arguments.out));
  if (arguments.overwrite) throw UsageError(expected_got("--overwrite", "no --dry-run, which writes nothing", "both"));
  if (arguments.resume) throw UsageError(expected_got("--resume", "no --dry-run, which writes nothing", "both"));
}

// Goes on with the run of --out, which has the very configuration.
void go_on(runs::TrainingRun& run, const runs::RunFolder& folder, const runs::RunConfig& config) {
  const std::string what = "train --resume: " + folder.path().string();
  const std::vector<runs::RunChange> changes = runs::read_changes(folder.changes_path());
  const runs::RunConfig before =
      runs::with_changes(runs::load_config(folder.config_path()), changes, folder.changes_path());
  for (const auto& [key, recorded, given] : runs::change_between(before, config, 0, what).keys)
    throw UsageError(expected_got(fmt::format("{}: {}", what, key), recorded + ", as it began", given));
  load_or_begin(run, folder, runs::changed_keys(changes));
}

void train(const TrainArguments& arguments) {
  expect_use(arguments);
  if (arguments.resume && (arguments.out.empty() || arguments.overwrite))
    throw UsageError(expected_got("--resume", "--out with it and no --overwrite",
                                  arguments.out.empty() ? "no --out" : "--overwrite"));
  register_definitions(arguments.definitions);
  expect_not_set_twice(arguments);
  runs::RunConfig config = runs::load_config(find_config(arguments.config), arguments.assignments);
  if (!arguments.corpus.empty() && !arguments.text.empty())
    throw UsageError(expected_got("--corpus", "no --text beside it", arguments.text.front()));
  if (!arguments.text.empty()) {
    config.data.text = arguments.text;
    config.data.corpus.clear();
    config.data.weights.clear();
  }
  if (!arguments.corpus.empty()) {
    config.data.text.clear();
    config.data.corpus = arguments.corpus;
  }
  add_task_files(arguments.files, config.task);
  if (arguments.dry_run) {
    DryRunOptions options{.json = arguments.json, .ranks = arguments.ranks, .machine_file = arguments.machine};
    if (!arguments.machine.empty())
      options.machine = runs::parse_machine(read_file(arguments.machine), arguments.machine);
    const DryRunTask made = dry_run_task(config);
    options.knows_data = made.knows_data;
    config = made.task->completed(std::move(config));
    expect_all_ready(/*last=*/true);
    return dry_run(config, made.task, options);
  }
  if (ran_as_ranks(arguments.ranks)) return;
  const auto task = runs::make_task(config);
  config = task->completed(std::move(config));
  if (ranks().count() == 1) runs::expect_memory_for_step(config, *task);
  runs::TrainingRun run(config.model, config.training, task, &ranks());
  expect_all_ready();
  run.expect_alike();
  if (!ranks().is_first()) return train_beside(run);
  const std::filesystem::path path =
      arguments.out.empty() ? runs::new_run_path(config.name) : std::filesystem::path(arguments.out);
  expect_not_replaced(config, path);
  say_how_data_are_taken(*task);
  say_what_precision_costs(config, task);
  std::vector<runs::RunFile> files = task->assets();
  for (runs::RunFile& record : task->records()) files.push_back(std::move(record));
  const bool goes_on = arguments.resume && fs::exists(path / "config.toml");
  const runs::RunFolder folder =
      goes_on ? runs::RunFolder::resume(path) : runs::RunFolder::create(path, config, files, arguments.overwrite);
  if (goes_on) go_on(run, folder, config);
  expect_all_ready(/*last=*/true);
  train_and_report(run, folder, config);
}

}  // namespace

void add_train_command(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train one model as a config says");
  command->add_option("config", arguments->config, "a TOML file, or an experiment of `cogwheel list experiments`")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--text", arguments->text, "files or folders to train on, instead of the config's")
      ->type_name("PATH");
  command
      ->add_option("--corpus", arguments->corpus,
                   "folders of `cogwheel data prepare` to train on, instead of the config's text")
      ->type_name("DIR");
  add_task_file_options(*command, arguments->files);
  command->add_option("--set", arguments->assignments, "override keys of the config, as in training.steps=100")
      ->type_name("KEY=VALUE");
  command->add_option("--out", arguments->out, "folder of the run; by default runs/<date-time>-<name>")
      ->type_name("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds");
  command->add_flag(
      "--resume", arguments->resume,
      "go on with the run that --out holds, where it holds one: the same command then starts and restarts");
  add_ranks_option(
      *command, arguments->ranks,
      "that train together: a divisor of training.micro_batches, times parallel.context and parallel.tensor");
  command->add_flag("--dry-run", arguments->dry_run,
                    "train nothing: say what it would take, parameters, memory, work, speed, days; with --ranks, of "
                    "each layout over so many");
  command
      ->add_option("--machine", arguments->machine, "of --dry-run: a TOML file that says what devices and network do")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "of --dry-run: as JSON");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { train(*arguments); });
}

}  // namespace cogwheel::cli
