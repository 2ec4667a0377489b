// The parts of `cogwheel data`, each of which adds itself to it.
#pragma once

namespace CLI {
class App;
}

namespace cogwheel::cli {

void add_data_prepare_command(CLI::App& data);
void add_data_inspect_command(CLI::App& data);

}  // namespace cogwheel::cli
