// The command line as a whole, with errors that read as all others do.
#pragma once

namespace cogwheel {

// Parses it and runs the chosen subcommand. Throws UsageError for an unknown subcommand or option (with the nearest
// names) and for values that do not parse; whatever the subcommand throws passes through. Prints help where asked.
void run_command_line(int argc, char** argv);

}  // namespace cogwheel
