#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/definition.h"
#include "cogwheel/attention/authoring/header_text.h"
#include "cogwheel/attention/authoring/user_header.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/ops/numerics_card.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

struct MechanismArguments {
  std::string action, name, out = ".", family = "pairwise";
  Definitions definitions;
};

// Writes a header to start from. An existing file is never replaced.
void start_header(const MechanismArguments& arguments) {
  if (!arguments.definitions.lines.empty() || !arguments.definitions.files.empty())
    throw UsageError(expected_got("mechanism new", "a name alone", "--define or --mechanism-file"));
  const bool is_recurrent = arguments.family == "recurrent";
  if (!is_recurrent && arguments.family != "pairwise")
    throw UsageError(expected_got("--family", "pairwise or recurrent", arguments.family));
  authoring::check_mechanism_name(arguments.name);
  is_added(arguments.name, "");  // throws if the name is taken
  authoring::check_header_name(arguments.name);
  const fs::path path = fs::path(arguments.out) / (arguments.name + ".h");
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  if (fs::exists(path, problem))
    throw UsageError(expected_got("mechanism new", "a file that is not there yet", path.string()));
  write_file(path, is_recurrent ? authoring::law_to_start_from(arguments.name)
                                : authoring::header_to_start_from(arguments.name));
  fmt::print("{}\n", path.string());
}

// Prints the card of every named mechanism, then throws Error with the first problem.
void print_cards(const MechanismArguments& arguments) {
  std::vector<std::string> names = register_definitions(arguments.definitions);
  if (!arguments.name.empty()) names.push_back(arguments.name);
  if (names.empty())
    throw UsageError(
        expected_got("mechanism " + arguments.action, "a name, --define or --mechanism-file", "none of them"));
  std::string problem;
  for (const std::string& name : names) {
    const authoring::NumericsCard card = ops::numerics_card(find_mechanism(name));
    fmt::print("{}", authoring::to_text(card));
    if (problem.empty() && !card.problems.empty()) problem = card.problems.front();
  }
  std::fflush(stdout);  // before the error goes to stderr
  if (!problem.empty()) throw Error(problem);
}

void run(const MechanismArguments& arguments) {
  if (arguments.action == "new") return start_header(arguments);
  if (arguments.action == "check" || arguments.action == "card") return print_cards(arguments);
  throw UsageError(
      expected_got("mechanism", expected_names(arguments.action, {"new", "check", "card"}), arguments.action));
}

}  // namespace

void add_mechanism_command(CLI::App& app) {
  const auto arguments = std::make_shared<MechanismArguments>();
  CLI::App* command = app.add_subcommand("mechanism", "Write, check and describe mechanisms of your own");
  command
      ->add_option(
          "action", arguments->action,
          "new: write a header to start from\ncard, or check: compile what is new, check it, print the numerics "
          "card; status 1 where something is wrong")
      ->required()
      ->type_name("new|check|card");
  command->add_option("name", arguments->name, "of the new one, or one of `cogwheel list mechanisms`")
      ->type_name("NAME");
  command->add_option("--out", arguments->out, "of new: the folder of the header")
      ->capture_default_str()
      ->type_name("DIR");
  command
      ->add_option("--family", arguments->family,
                   "of new: pairwise, a function of a score; recurrent, a law of a state")
      ->capture_default_str()
      ->type_name("FAMILY");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace cogwheel::cli
