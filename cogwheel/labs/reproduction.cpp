#include "cogwheel/labs/reproduction.h"

#include <fmt/format.h>

#include <sstream>

#include "cogwheel/configuration/toml_text.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"
#include "cogwheel/labs/labs.h"

namespace cogwheel {
namespace {

std::string toml_text(const toml::node& node) {
  std::ostringstream text;
  if (const auto* array = node.as_array())
    text << *array;
  else if (const auto* whole = node.as_integer())
    text << whole->get();
  else if (const auto* number = node.as_floating_point())
    text << number_text(number->get());
  else if (const auto* string = node.as_string())
    text << '"' << string->get() << '"';
  else
    text << "a value of type " << node.type();
  return text.str();
}

// Numbers of an array separated by commas, as LabParameters::set reads them.
std::string value_text_of(const toml::node& node) {
  const auto* const array = node.as_array();
  if (array == nullptr) return toml_text(node);
  std::string joined;
  for (const toml::node& element : *array) joined += (joined.empty() ? "" : ", ") + toml_text(element);
  return "[" + joined + "]";
}

}  // namespace

LabExperiment parse_lab_experiment(std::string_view text, const std::string& name, const std::string& what) {
  const toml::table given = parse_toml(text, what);
  const std::vector<std::string> keys{"lab", "sources", "parameters"};
  for (const auto& [key, node] : given)
    if (std::find(keys.begin(), keys.end(), key.str()) == keys.end())
      throw UsageError(expected_got(what + ": key", expected_names(key.str(), keys), key.str()));
  const LabEntry& lab = find_lab(given["lab"].value_or(std::string()), what + ": lab");
  LabExperiment experiment{.name = name, .sources = {}, .lab = &lab, .parameters = lab.parameters};
  if (const auto* const sources = given["sources"].as_array())
    for (const toml::node& source : *sources) experiment.sources.push_back(source.value_or(std::string()));
  if (const auto* const parameters = given["parameters"].as_table())
    for (const auto& [key, node] : *parameters) experiment.parameters.set(key.str(), value_text_of(node), what);
  return experiment;
}

void set_parameters(LabExperiment& experiment, const std::vector<std::string>& assignments) {
  LabParameters changed = experiment.parameters;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError(expected_got("--set", "key=value", assignment));
    changed.set(assignment.substr(0, equals), assignment.substr(equals + 1), "--set");
  }
  experiment.lab->check(changed);
  experiment.parameters = std::move(changed);
}

std::string agreement(const LabResult& result) {
  int compared = 0, agreed = 0;
  std::string others;
  for (const Finding& finding : result.findings) {
    const std::optional<bool> agrees = finding.agrees();
    if (!agrees) continue;
    ++compared, agreed += *agrees ? 1 : 0;
    if (!*agrees) others += (others.empty() ? "" : "; ") + finding.what;
  }
  if (compared == 0) return "The source has no number for these parameters.";
  if (agreed == compared)
    return compared == 1 ? "The one number compared agrees with the source."
                         : fmt::format("All {} numbers compared agree with the source.", compared);
  return fmt::format("{} of {} numbers compared agree with the source. Not so: {}.", agreed, compared, others);
}

TextTable findings_table(const LabResult& result) {
  TextTable table{"", {"what", "source", "the source's", "ours", "agree"}, {}};
  for (const Finding& finding : result.findings) {
    const std::optional<bool> agrees = finding.agrees();
    table.rows.push_back({finding.what, finding.source, finding.expected_text(), finding.ours_text(),
                          !agrees   ? "–"
                          : *agrees ? "yes"
                                    : "no"});
  }
  return table;
}

}  // namespace cogwheel
