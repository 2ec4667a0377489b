// The subcommands of `cogwheel data`, each in a file of verbs/.
#pragma once

namespace CLI {
class App;
}

namespace cogwheel::cli {

void add_data_tokenizer_command(CLI::App& data);
void add_data_prepare_command(CLI::App& data);
void add_data_inspect_command(CLI::App& data);

}  // namespace cogwheel::cli
