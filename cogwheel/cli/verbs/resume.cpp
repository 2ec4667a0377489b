#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/compare/comparison_folder.h"

namespace cogwheel::cli {
namespace {

struct ResumeArguments {
  std::string run;
  Definitions definitions;
};

void resume(const ResumeArguments& arguments) {
  const std::string& path = arguments.run;
  register_definitions(arguments.definitions);
  const runs::RunFolder folder = runs::RunFolder::resume(path);
  runs::expect_resumable(folder.checkpoint_path());  // before a task looks for data that imported weights lack
  const runs::RunConfig config = runs::load_config(folder.config_path());
  runs::TrainingRun run(config.model, config.training, compare::task_of_run(config, folder.path()));
  for (const auto& difference : run.load(folder.checkpoint_path())) fmt::print(stderr, "warning: {}\n", difference);
  if (run.steps_done() >= config.training.steps) {
    fmt::print("{} has made all of its {} steps\n", path, config.training.steps);
    return;
  }
  train_and_report(run, folder, config);
}

}  // namespace

void add_resume_command(CLI::App& app) {
  const auto arguments = std::make_shared<ResumeArguments>();
  CLI::App* command = app.add_subcommand("resume", "Continue a run from its last checkpoint");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { resume(*arguments); });
}

}  // namespace cogwheel::cli
