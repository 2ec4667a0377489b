// --define and --mechanism-file: mechanisms of the user's own, brought before anything else is looked at.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cogwheel {

struct Definitions {
  std::vector<std::string> lines, files;
};

// Adds both options to a command. `definitions` lives as long as the command.
void add_definition_options(CLI::App& command, Definitions& definitions);

// Compiles them, or takes them from the cache, in the order of the command line; lines first. Returns the names. Throws
// UsageError for what does not read or compile.
std::vector<std::string> bring(const Definitions& definitions);

}  // namespace cogwheel
