// --device of subcommands that read a trained model.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace cogwheel::cli {

// `name` must live as long as the command.
void add_device_option(CLI::App& command, std::string& name);

// Where models are from now on, on every thread. Throws UsageError for a device that is not there; `subcommand`:
// "view".
void place_models_on(const std::string& name, const std::string& subcommand);

}  // namespace cogwheel::cli
