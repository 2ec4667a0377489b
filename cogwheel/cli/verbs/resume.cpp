#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/run_changes.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::cli {
namespace {

struct ResumeArguments {
  std::string run, out;
  std::vector<std::string> assignments;
  std::int64_t ranks = 0;
  Definitions definitions;
};

// What a comparison says of its runs must stay true.
void expect_no_run_of_a_comparison(const std::filesystem::path& run) {
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(run, problem);
  if (folder_kind(folder.parent_path().parent_path()) == runs::comparison_kind)
    throw UsageError(expected_got("resume: --set", "--out beside it, for the run belongs to a comparison", "none"));
}

void resume(const ResumeArguments& arguments) {
  register_definitions(arguments.definitions);
  if (ran_as_ranks(arguments.ranks)) return;
  const bool copies = !arguments.out.empty();
  if (!copies && !arguments.assignments.empty()) expect_no_run_of_a_comparison(arguments.run);
  runs::RunFolder folder =
      copies || !ranks().is_first() ? runs::RunFolder::open(arguments.run) : runs::RunFolder::resume(arguments.run);
  // Before a task looks for data that imported weights lack, which have one checkpoint.
  if (folder.has_checkpoint() && folder.numbered_checkpoints().empty())
    runs::expect_resumable(folder.checkpoint_path());
  const std::vector<runs::RunChange> changes = runs::read_changes(folder.changes_path());
  const runs::RunConfig before =
      runs::with_changes(runs::load_config(folder.config_path()), changes, folder.changes_path());
  runs::RunConfig config = before;
  runs::set_options(config, arguments.assignments);
  const auto now = runs::change_between(before, config, 0, "resume: --set");
  std::set<std::string> changed = runs::changed_keys(changes);
  for (const runs::RunChange::Key& each : now.keys) changed.insert(each.key);
  runs::TrainingRun run(config.model, config.training, compare::task_of_run(config, folder.path()), &ranks());
  expect_all_ready();
  run.expect_alike();
  if (!ranks().is_first()) return train_beside(run);
  if (copies && folder.checkpoint_path() != folder.newest_path()) {
    for (const auto& line : runs::load_checkpoint(run, folder, folder.checkpoint_path(), changed))
      fmt::print(stderr, "warning: {}\n", line);
  } else {
    load_or_begin(run, folder, changed);
  }
  if (copies)
    folder = runs::RunFolder::copy(folder, arguments.out,
                                   [&](const runs::RunFolder& copy) { runs::keep_checkpoint(run, copy); });
  const std::string path = folder.path().string();
  if (!now.keys.empty()) {
    // The record first: whatever happens between, the next resume knows what is meant.
    runs::add_change(folder.changes_path(), {.step = run.steps_done(), .keys = now.keys});
    write_file(folder.config_path(), runs::to_toml(config));
  }
  if (run.steps_done() >= config.training.steps && ranks().count() == 1) {
    fmt::print("{} has made all of its {} steps\n", path, config.training.steps);
    return;
  }
  expect_all_ready(/*last=*/true);
  train_and_report(run, folder, config);
}

}  // namespace

void add_resume_command(CLI::App& app) {
  const auto arguments = std::make_shared<ResumeArguments>();
  CLI::App* command = app.add_subcommand("resume", "Continue a run from its last checkpoint");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--set", arguments->assignments, "go on with other keys of training, as in training.steps=4000")
      ->type_name("KEY=VALUE");
  command->add_option("--out", arguments->out, "a new folder in which a copy of the run goes on")->type_name("DIR");
  add_ranks_option(
      *command, arguments->ranks,
      "that train together: a divisor of training.micro_batches, times parallel.context and parallel.tensor");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { resume(*arguments); });
}

}  // namespace cogwheel::cli
