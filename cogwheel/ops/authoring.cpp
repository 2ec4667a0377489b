// A user's own mechanism for Python: errors of authoring become Python's ValueError and RuntimeError.
#include "cogwheel/attention/authoring/authoring.h"

#include <c10/util/Exception.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/numerics_card.h"
#include "cogwheel/ops/pairwise/operators.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

template <class Do>
auto with_errors_of_torch(const Do& act) {
  try {
    return act();
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace

std::string define_mechanism(c10::string_view name, c10::string_view f, c10::string_view g, c10::string_view n,
                             c10::string_view energy, const std::vector<std::string>& parameter_names,
                             at::ArrayRef<double> parameter_values) {
  if (parameter_names.size() != parameter_values.size())
    refuse("parameters", std::to_string(parameter_names.size()) + " values (as names)",
           std::to_string(parameter_values.size()));
  authoring::DefinitionText text{.name = std::string(name),
                                 .f = std::string(f),
                                 .g = std::string(g),
                                 .n = std::string(n),
                                 .energy = std::string(energy),
                                 .parameters = {}};
  for (std::size_t i = 0; i < parameter_names.size(); ++i)
    text.parameters.emplace_back(parameter_names[i], parameter_values[i]);
  return with_errors_of_torch([&] {
    return std::string(cogwheel::authoring::define_mechanism(authoring::parse_definition(text)).description.name);
  });
}

std::string define_mechanism_line(c10::string_view line) {
  return with_errors_of_torch([&] {
    return std::string(
        cogwheel::authoring::define_mechanism(authoring::parse_definition(std::string(line))).description.name);
  });
}

std::string load_mechanism(c10::string_view path) {
  return with_errors_of_torch([&] { return std::string(load_checked_mechanism(std::string(path)).description.name); });
}

std::string mechanism_card(c10::string_view name) {
  return with_errors_of_torch([&] {
    const authoring::NumericsCard card = numerics_card(find_mechanism(std::string(name)));
    auto facts = nlohmann::ordered_json::object();
    for (const auto& [what, found] : card.facts) facts[what] = found;
    return nlohmann::ordered_json{{"mechanism", card.mechanism}, {"facts", facts}, {"problems", card.problems}}.dump();
  });
}

}  // namespace cogwheel::ops
