#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/interchange/export_run.h"

namespace cogwheel::cli {
namespace {

struct ExportArguments {
  std::string run, out;
  interchange::ExportOptions options;
};

void export_model(const ExportArguments& arguments) {
  const interchange::ExportedModel model =
      interchange::export_run(runs::RunFolder::open(arguments.run), arguments.out, arguments.options);
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
  command->add_option("--out", arguments->out, "folder for config.json, the weights and the vocabulary")
      ->required()
      ->type_name("DIR");
  command->add_option("--as", arguments->options.as, "the architecture to write (cogwheel list architectures)")
      ->type_name("NAME");
  command
      ->add_option("--dtype", arguments->options.weights.dtype,
                   "fp32, bf16 or fp16, to which the weights are rounded; numbers that it cannot hold are refused")
      ->capture_default_str()
      ->type_name("KIND");
  add_number(
      *command, "--shard-bytes", arguments->options.weights.shard_bytes,
      Range<std::int64_t>{.min = 1, .max = std::int64_t{1} << 62},
      "several files with an index, each of at most so many bytes unless one tensor has more (default: one file)")
      ->type_name("N");
  command->add_flag("--overwrite", arguments->options.overwrite, "replace the export that --out holds");
  command->callback([arguments] { export_model(*arguments); });
}

}  // namespace cogwheel::cli
