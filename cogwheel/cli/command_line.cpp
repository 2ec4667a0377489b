#include "cogwheel/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel {
namespace {

// Without the hidden subcommands.
std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The chosen subcommand, else the whole program.
const CLI::App& chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const std::string name = command.get_parent() == nullptr ? "arguments" : command.get_name();
  for (const std::string& word : app.remaining(/*recurse=*/true))
    if (word.starts_with("-"))
      throw UsageError(expected_got(name + ": option", expected_names(word, option_names(command)), word));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::string missing = error.what();  // "<argument> is required"
    missing.resize(std::min(missing.find(" is required"), missing.size()));
    throw UsageError(expected_got(name, missing, "nothing"));
  }
  throw UsageError(
      expected_got(name, "what `cogwheel " + (name == "arguments" ? "" : name + " ") + "--help` shows", error.what()));
}

}  // namespace

void run_command_line(int argc, char** argv) {
  CLI::App app("Cogwheel: train, compare and inspect attention mechanisms", "cogwheel");
  app.set_version_flag("--version", COGWHEEL_VERSION);
  // As `cogwheel --help` lists them.
  for (const auto add :
       {add_compare, add_train, add_resume, add_evaluate, add_sample, add_inspect, add_view, add_embed, add_import,
        add_export, add_reproduce, add_list, add_mechanism_command, add_bench, add_bench_steps})
    add(app);
  app.require_subcommand(1);
  app.footer("`cogwheel help COMMAND` explains each.");
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // "help train" is "train --help".
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  const std::string first = words.empty() ? "" : words.front();
  if (!first.starts_with("-") &&
      app.get_subcommands([&](const CLI::App* each) { return each->get_name() == first; }).empty())
    throw UsageError(
        expected_got("command", expected_names(first, subcommand_names(app)), first.empty() ? "none" : first));
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) refuse(app, error);
    app.exit(error);  // --help and --version
  }
}

}  // namespace cogwheel
