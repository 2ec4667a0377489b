#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/interchange/export_run.h"

namespace cogwheel::cli {
namespace {

struct ExportArguments {
  std::string run, out;
  bool overwrite = false;
};

void export_model(const ExportArguments& arguments) {
  const interchange::ExportedModel model =
      interchange::export_run(runs::RunFolder::open(arguments.run), arguments.out, arguments.overwrite);
  for (const std::string& note : model.notes) fmt::print(stderr, "{}\n", note);
  fmt::print("{}: {}, {} tensors\n", arguments.out, model.architecture, model.weights.size());
}

}  // namespace

void add_export_command(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write a trained model as other programs read it");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", arguments->out, "folder for config.json, model.safetensors and the vocabulary")
      ->required()
      ->type_name("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "replace the export that --out holds");
  command->callback([arguments] { export_model(*arguments); });
}

}  // namespace cogwheel::cli
