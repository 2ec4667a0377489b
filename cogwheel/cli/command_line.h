// The whole command line, with errors in the same form as all others.
#pragma once

namespace cogwheel::cli {

// Parses the arguments and runs the chosen subcommand. Throws UsageError for an unknown subcommand or option (with the
// nearest names) and for values that do not parse; exceptions of the subcommand pass through. Prints help on request.
void run_command_line(int argc, char** argv);

}  // namespace cogwheel::cli
