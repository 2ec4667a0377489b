#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/runs/curves/curve_files.h"
#include "cogwheel/runs/curves/curves_page.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

struct CurvesArguments {
  std::vector<std::string> runs;
  std::string out = "curves.html", tensorboard, wandb;
  Definitions definitions;
};

std::string command_of(const CurvesArguments& arguments) {
  std::string command = "cogwheel curves";
  for (const std::string& run : arguments.runs) command += " " + shell_word(run);
  return command + " --out " + shell_word(arguments.out);
}

// All that can be refused is, before anything is written.
void expect_places(const CurvesArguments& arguments) {
  runs::expect_no_run_file(arguments.out, "curves: --out");
  const fs::path page = arguments.out;
  expect_makable(page.has_parent_path() ? page.parent_path() : fs::path("."));
  for (const std::string& folder : {arguments.tensorboard, arguments.wandb})
    if (!folder.empty()) {
      runs::expect_no_run_file(folder, folder == arguments.wandb ? "curves: --wandb" : "curves: --tensorboard");
      expect_makable(folder);
    }
}

void curves(const CurvesArguments& arguments) {
  register_definitions(arguments.definitions);
  expect_places(arguments);
  const std::vector<runs::RunCurve> found =
      runs::read_curves(runs::folders_of_runs({arguments.runs.begin(), arguments.runs.end()}));
  const fs::path page = arguments.out;
  if (page.has_parent_path()) make_folder(page.parent_path());
  write_file(page, runs::curves_page(found, command_of(arguments), utc_now(), COGWHEEL_VERSION));
  if (!arguments.tensorboard.empty())
    runs::write_curve_files(found, runs::CurveFormat::tensorboard, arguments.tensorboard);
  if (!arguments.wandb.empty()) runs::write_curve_files(found, runs::CurveFormat::wandb, arguments.wandb);
  fmt::print("{}\n{}\n", runs::curves_verdict(found), page.string());
}

}  // namespace

void add_curves_command(CLI::App& app) {
  const auto arguments = std::make_shared<CurvesArguments>();
  CLI::App* command = app.add_subcommand("curves", "Show what runs have learned so far, running ones too, on a page");
  command->add_option("runs", arguments->runs, "folders of runs, or of comparisons for all their runs")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", arguments->out, "the page; by default curves.html")->type_name("FILE");
  command
      ->add_option("--tensorboard", arguments->tensorboard, "also write event files for TensorBoard below this folder")
      ->type_name("DIR");
  command->add_option("--wandb", arguments->wandb, "also write offline runs of Weights & Biases below this folder")
      ->type_name("DIR");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { curves(*arguments); });
}

}  // namespace cogwheel::cli
