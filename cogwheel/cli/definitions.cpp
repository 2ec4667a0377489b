#include "cogwheel/cli/definitions.h"

#include <CLI/CLI.hpp>

#include "cogwheel/attention/authoring/authoring.h"
#include "cogwheel/ops/numerics_card.h"

namespace cogwheel::cli {

void add_definition_options(CLI::App& command, Definitions& definitions) {
  command
      .add_option("--define", definitions.lines,
                  "a mechanism of your own, as in 'mine: f = sign(s)*exp(abs(s)); g = exp(abs(s))'")
      ->type_name("LINE")
      ->expected(1)
      ->take_all();
  command
      .add_option("--mechanism-file", definitions.files,
                  "a header with a mechanism of your own; its code runs (cogwheel mechanism new)")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
}

std::vector<std::string> register_definitions(const Definitions& definitions) {
  std::vector<std::string> names;
  for (const std::string& line : definitions.lines)
    names.emplace_back(authoring::define_mechanism(authoring::parse_definition(line)).description.name);
  for (const std::string& file : definitions.files)
    names.emplace_back(ops::load_checked_mechanism(file).description.name);
  return names;
}

}  // namespace cogwheel::cli
