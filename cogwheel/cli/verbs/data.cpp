#include "cogwheel/cli/verbs/data.h"

#include <CLI/CLI.hpp>

#include "cogwheel/cli/commands.h"

namespace cogwheel::cli {

void add_data_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "Prepare files to train on as a corpus of tokens, and look into it");
  command->require_subcommand(1);
  add_data_prepare_command(*command);
  add_data_inspect_command(*command);
}

}  // namespace cogwheel::cli
