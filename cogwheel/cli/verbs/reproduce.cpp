#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/experiments.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/research/reproduce/reproduction.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::cli {
namespace {

struct ReproduceArguments {
  std::string experiment, out;
  std::vector<std::string> assignments;
  bool overwrite = false;
};

std::string command_of(const ReproduceArguments& arguments) {
  std::string command = "cogwheel reproduce " + arguments.experiment;
  for (const std::string& assignment : arguments.assignments) command += " --set " + shell_word(assignment);
  return command;
}

// The numbers beside each other, one a line, and why they differ where they do.
void print_findings(const labs::LabResult& result) {
  for (const labs::Finding& finding : result.findings) {
    const std::optional<bool> agrees = finding.agrees();
    fmt::print("{}  {}: {}{}\n",
               !agrees   ? "   "
               : *agrees ? "yes"
                         : "no ",
               finding.what, finding.ours_text(),
               agrees ? fmt::format(", expected {} ({})", finding.expected_text(), finding.whose_text()) : "");
  }
  fmt::print("\n{}\n", result.answer);
  for (const labs::Finding& finding : result.findings)
    if (finding.agrees() == std::optional(false) && !finding.remark.empty())
      fmt::print("{}: {}\n", finding.what, finding.remark);
}

void reproduce(const ReproduceArguments& arguments) {
  namespace fs = std::filesystem;
  const Experiment found = find_reproduction(arguments.experiment);
  reproduce::LabExperiment experiment =
      reproduce::parse_lab_experiment(read_file(found.path), found.name, found.path.string());
  reproduce::set_parameters(experiment, arguments.assignments);
  std::string name = found.name;
  std::replace(name.begin(), name.end(), '/', '-');
  const fs::path folder = arguments.out.empty() ? runs::new_run_path(name) : fs::path(arguments.out);
  const auto lock = take_folder(folder, reproduce::reproduction_kind, arguments.overwrite);
  remove_files(folder, {reproduce::reproduction_page_file, reproduce::reproduction_json_file});
  runs::point_latest_at(folder);

  fmt::print(stderr, "{}: {}\n", found.name, experiment.lab->question);
  const auto begin = std::chrono::steady_clock::now();
  labs::LabResult result = experiment.lab->run(
      experiment.parameters, {.executor = ops::TorchExecutor(), .progress = [&](const std::string& line) {
                                fmt::print(stderr, "{}: {}\n", found.name, line);
                              }});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const reproduce::Reproduction reproduction{.experiment = std::move(experiment),
                                             .result = std::move(result),
                                             .command = command_of(arguments),
                                             .created = utc_now(),
                                             .version = COGWHEEL_VERSION,
                                             .cpu = compare::this_machine().cpu,
                                             .seconds = seconds};
  write_file(folder / reproduce::reproduction_json_file, reproduce::reproduction_json(reproduction));
  write_file(folder / reproduce::reproduction_page_file, reproduce::reproduction_page(reproduction));
  print_findings(reproduction.result);
  fmt::print("{}\n{}\n", reproduce::agreement(reproduction.result),
             (folder / reproduce::reproduction_page_file).string());
}

}  // namespace

void add_reproduce_command(CLI::App& app) {
  const auto arguments = std::make_shared<ReproduceArguments>();
  CLI::App* command = app.add_subcommand("reproduce",
                                         "Run an experiment on an argument of the lecture (docs/labs.md) and write a "
                                         "page with what it lets one expect beside what is found");
  command->add_option("experiment", arguments->experiment, "one of `cogwheel list experiments`, such as s2/hopfield")
      ->required()
      ->type_name("NAME");
  command->add_option("--set", arguments->assignments, "override parameters, as in seed=2 or sizes=250,500")
      ->type_name("KEY=VALUE");
  command->add_option("--out", arguments->out, "folder of the result; by default runs/<date-time>-<name>")
      ->type_name("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "replace the result that --out holds");
  command->callback([arguments] { reproduce(*arguments); });
}

}  // namespace cogwheel::cli
