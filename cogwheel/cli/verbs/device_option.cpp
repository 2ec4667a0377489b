#include "cogwheel/cli/verbs/device_option.h"

#include "cogwheel/nn/weights/device_name.h"
#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::cli {

void add_device_option(CLI::App& command, std::string& name) {
  command.add_option("--device", name, "where the model is: cpu, cuda, cuda:1, mps or xpu")
      ->default_str(name)
      ->type_name("DEVICE");
}

void place_models_on(const std::string& name, const std::string& subcommand) {
  nn::place_parameters_by_default(nn::device_named(subcommand + ": --device", name));
}

}  // namespace cogwheel::cli
