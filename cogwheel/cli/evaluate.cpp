#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/utc_time.h"
#include "cogwheel/report/evaluation_page.h"
#include "cogwheel/tasks/tasks.h"

namespace cogwheel {
namespace {

struct EvaluateArguments {
  std::string run, out;
  Definitions definitions;
};

void evaluate(const EvaluateArguments& arguments) {
  register_definitions(arguments.definitions);
  const RunFolder folder = RunFolder::open(arguments.run);
  const RunConfig config = load_config(folder.config_path());
  const EvaluationOfRun evaluation = evaluate_run(*make_task(config, folder.path()), config, folder);
  const std::filesystem::path out = arguments.out.empty() ? folder.path() : std::filesystem::path(arguments.out);
  std::filesystem::create_directories(out);
  write_file(out / evaluation_json_file, evaluation_to_json(evaluation));
  write_file(out / evaluation_page_file, evaluation_page(evaluation, arguments.run, utc_now(), COGWHEEL_VERSION));
  fmt::print("{}\n{}\n", evaluation_verdict(evaluation), (out / evaluation_page_file).string());
}

}  // namespace

void add_evaluate(CLI::App& app) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure a trained model, and write a page of what it does");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", arguments->out, "folder of the page; by default that of the run")->type_name("DIR");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace cogwheel
