#include "cogwheel/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::cli {
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

// The chosen subcommand, of a subcommand too, else the whole program.
const CLI::App& chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : chosen(*commands.front());
}

// As it is typed: "data tokenizer train".
std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const std::string before = parent == nullptr || parent->get_parent() == nullptr ? "" : full_name(*parent) + " ";
  return before + command.get_name();
}

// The placeholder in the help of options that mean nothing without a value, and what it stands for. Numbers say
// themselves what they expect, and a TEXT may be empty.
constexpr std::pair<std::string_view, std::string_view> meant_by_type[] = {
    {"NAME", "a name"},  {"NAMES", "names"},           {"KIND", "a kind"},        {"WHAT", "a name"},
    {"DIR", "a folder"}, {"PATH", "a file or folder"}, {"FILE", "a file"},        {"RUN", "the folder of a run"},
    {"LINE", "a line"},  {"FAMILY", "a family"},       {"KEY=VALUE", "key=value"}};

// An empty value, as of a variable of a shell that is not set, is no default.
void refuse_empty_values(CLI::App& command) {
  for (CLI::App* within : command.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*within);
  for (CLI::Option* option : command.get_options())
    for (const auto& [type, meant] : meant_by_type)
      if (option->nonpositional() && option->get_type_name() == type)
        option->check([name = option->get_name(), meant = meant](const std::string& value) {
          if (value.empty()) throw UsageError(expected_got(name, meant, "an empty value"));
          return std::string();
        });
}

// CLI11's words for too many values or too few, "--out: At Most 1 required but received 2" or "--out: 1 required DIR
// missing", as "--out" and {"at most 1 value", "2"}.
std::string counts_text(const std::string& name, const std::string& words) {
  const std::size_t colon = words.find(": ");
  if (colon == std::string::npos) return "";
  const std::string option = name + ": " + words.substr(0, colon), rest = words.substr(colon + 2);
  const auto between = [&](std::string_view before, std::string_view after) {
    const std::size_t begin = rest.find(before), end = rest.find(after);
    return begin == std::string::npos || end == std::string::npos || end < begin + before.size()
               ? std::string()
               : rest.substr(begin + before.size(), end - begin - before.size());
  };
  constexpr std::string_view received = " required but received ";
  const auto values_of = [](const std::string& count) { return count + (count == "1" ? " value" : " values"); };
  for (const auto& [said, ours] : {std::pair("At Most ", "at most "), std::pair("At least ", "at least ")})
    if (const std::string count = between(said, received); !count.empty())
      return expected_got(option, ours + values_of(count), rest.substr(rest.find(received) + received.size()));
  if (const std::string type = between(" required ", " missing"); !type.empty())
    return expected_got(option, type, "nothing");
  return "";
}

// Full names of the commands that have the option --ranks.
std::vector<std::string> commands_of_ranks(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_option_no_throw("--ranks") != nullptr) names.push_back(full_name(*each));
    for (std::string& name : commands_of_ranks(*each)) names.push_back(std::move(name));
  }
  return names;
}

// Of several ranks: commands without --ranks would do the same several times, into the same files.
void expect_known_ranks(const CLI::App& app, const std::vector<std::string>& words) {
  if (ranks().count() == 1 || words.empty()) return;
  const std::vector<std::string> know = commands_of_ranks(app);
  const std::string two = words.front() + " " + (words.size() > 1 ? words[1] : "");
  for (const std::string& name : know)
    if (name == words.front() || name == two) return;
  throw UsageError(expected_got(words.front(), "one process",
                                fmt::format("{} ranks, which {} know", ranks().count(), fmt::join(know, ", "))));
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const std::string name = command.get_parent() == nullptr ? "arguments" : full_name(command);
  for (const std::string& word : app.remaining(/*recurse=*/true))
    if (word.starts_with("-"))
      throw UsageError(expected_got(name + ": option", expected_names(word, option_names(command)), word));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::string missing = error.what();  // "<argument> is required"
    missing.resize(std::min(missing.find(" is required"), missing.size()));
    if (const std::vector<std::string> names = subcommand_names(command); !names.empty()) {
      const std::vector<std::string> words = app.remaining(/*recurse=*/true);
      const std::string word = words.empty() ? "" : words.front();
      throw UsageError(expected_got(name, expected_names(word, names), word));
    }
    throw UsageError(expected_got(name, missing, "nothing"));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    throw UsageError(expected_got(name, "no further argument", app.remaining(/*recurse=*/true).front()));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    if (const std::string text = counts_text(name, error.what()); !text.empty()) throw UsageError(text);
  throw UsageError(
      expected_got(name, "what `cogwheel " + (name == "arguments" ? "" : name + " ") + "--help` shows", error.what()));
}

}  // namespace

void run_command_line(int argc, char** argv) {
  CLI::App app("Cogwheel: train, compare and inspect attention mechanisms", "cogwheel");
  app.set_version_flag("--version", COGWHEEL_VERSION);
#define VERB(name) add_##name##_command(app);
#include "cogwheel/cli/verbs.def"
#undef VERB
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
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
  expect_known_ranks(app, words);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) refuse(app, error);
    app.exit(error);  // --help and --version
  }
}

}  // namespace cogwheel::cli
