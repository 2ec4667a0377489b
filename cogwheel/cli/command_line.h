// Parsing the command line, with errors that read as all others do.
#pragma once
#include <CLI/CLI.hpp>

namespace cogwheel {

// Parses and runs the chosen subcommand. Throws UsageError for an unknown subcommand or option (with the nearest names)
// and for values that do not parse; whatever the subcommand throws passes through. Prints help where asked.
void run_command_line(CLI::App& app, int argc, char** argv);

}  // namespace cogwheel
