// --define and --mechanism-file: the user's own mechanisms, registered before any other option is checked.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cogwheel::cli {

struct Definitions {
  std::vector<std::string> lines, files;
};

// Adds both options to a command. `definitions` lives as long as the command.
void add_definition_options(CLI::App& command, Definitions& definitions);

// Compiles them, or loads them from the cache, and registers them in the order of the command line, lines first.
// Returns the names. Throws UsageError for a definition that does not parse or compile.
std::vector<std::string> register_definitions(const Definitions& definitions);

}  // namespace cogwheel::cli
