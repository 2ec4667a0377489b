// A subcommand.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cogwheel/cli/commands.h"

namespace cogwheel::cli {

void add_greet_command(CLI::App& app) {
  app.add_subcommand("greet", "Say hello")->callback([] { std::puts("hello"); });
}

}  // namespace cogwheel::cli
