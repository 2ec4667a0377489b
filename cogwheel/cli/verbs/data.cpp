#include <CLI/CLI.hpp>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/data_commands.h"

namespace cogwheel::cli {

void add_data_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("data", "Make tokenizers, prepare files to train on as tokens, and look into them");
  command->require_subcommand(1);
  add_data_tokenizer_command(*command);
  add_data_prepare_command(*command);
  add_data_inspect_command(*command);
}

}  // namespace cogwheel::cli
