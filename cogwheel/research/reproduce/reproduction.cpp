#include "cogwheel/research/reproduce/reproduction.h"

#include <fmt/format.h>

#include <sstream>

#include "cogwheel/core/error.h"
#include "cogwheel/research/labs/labs.h"
#include "cogwheel/runs/configuration/strict_table.h"
#include "cogwheel/runs/configuration/toml_text.h"

namespace cogwheel::reproduce {
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
  const toml::table given = runs::parse_toml(text, what);
  runs::StrictTable keys(given, what);
  const std::string name_of_lab = keys.text("lab").value_or(""), section = keys.text("section").value_or("");
  const std::vector<std::string> items = keys.texts("items");
  const toml::table* const parameters = keys.table("parameters");
  const double minutes = keys.number("minutes", {0, 1e6}).value_or(0);
  keys.finish();
  const labs::LabEntry& lab = labs::find_lab(name_of_lab, keys.what("lab"));
  LabExperiment experiment{.name = name,
                           .source = &source_name(name, what),
                           .section = section,
                           .items = items,
                           .lab = &lab,
                           .parameters = lab.parameters,
                           .minutes = minutes};
  if (parameters != nullptr)
    for (const auto& [key, node] : *parameters) experiment.parameters.set(key.str(), value_text_of(node), what);
  return experiment;
}

void set_parameters(LabExperiment& experiment, const ReproductionRequest& request) {
  LabParameters changed = experiment.parameters;
  const auto set = [&](const char* parameter, std::int64_t value, const std::string& option) {
    if (value == 0) return;
    if (!changed.has(parameter))
      throw UsageError(expected_got(experiment.name, "no " + option + ", as its lab has no " + parameter, option));
    changed.set(parameter, std::to_string(value), option);
  };
  set(seeds_parameter, request.seeds, "--seeds");
  set(steps_parameter, request.steps, "--steps");
  for (const std::string& assignment : request.set) changed.assign(assignment, "--set");
  for (const std::string& assignment : request.fitted) changed.assign(assignment, std::string(request_file));
  experiment.lab->check(changed);
  experiment.parameters = std::move(changed);
}

labs::LabResult run_lab(const LabExperiment& experiment, const labs::LabHost& host) {
  labs::LabResult result = experiment.lab->run(experiment.parameters, host);
  labs::decide_findings(result.findings);
  return result;
}

namespace {

// Of the findings that somebody expects something of, how many agree, what does not, and what cannot be told.
struct Counted {
  int compared = 0, agreed = 0;
  std::string others, untold;

  void add(const labs::Finding& finding, labs::Verdict verdict) {
    ++compared, agreed += verdict == labs::Verdict::agrees ? 1 : 0;
    if (verdict == labs::Verdict::agrees) return;
    std::string& list = verdict == labs::Verdict::contradicts ? others : untold;
    list += (list.empty() ? "" : "; ") + finding.what;
  }
  // "All 3 numbers compared agree with the lecture." `one`, `all` and `some`: of one number, of all ("Both", "All 3"),
  // and of some of them; `called` is who they agree with.
  std::string text(std::string_view one, std::string_view all, std::string_view some, std::string_view called) const {
    if (agreed == compared)
      return compared == 1
                 ? fmt::format(fmt::runtime(one), called)
                 : fmt::format(fmt::runtime(all), compared == 2 ? "Both" : fmt::format("All {}", compared), called);
    std::string told = fmt::format(fmt::runtime(some), agreed, compared, called);
    if (!others.empty()) told += " Not so: " + others + ".";
    if (!untold.empty()) told += " These draws cannot tell: " + untold + ".";
    return told;
  }
};

}  // namespace

std::string agreement(const labs::LabResult& result, const SourceName& source) {
  Counted theirs, ours;
  for (const labs::Finding& finding : result.findings)
    if (const std::optional<labs::Verdict> verdict = finding.verdict())
      (finding.whose == labs::Finding::Whose::ours ? ours : theirs).add(finding, *verdict);
  std::string told = theirs.compared == 0
                         ? fmt::format("With these parameters there is nothing to compare with {}.", source.called)
                         : theirs.text("The one number compared agrees with {}.", "{} numbers compared agree with {}.",
                                       "{} of {} numbers compared agree with {}.", source.called);
  if (ours.compared > 0)
    told += " " + ours.text("The one bound of our own holds.", "{} bounds of our own hold.",
                            "{} of {} bounds of our own hold.", "");
  return told;
}

namespace {

std::string verdict_cell(const labs::Finding& finding) {
  const std::string evidence = finding.evidence_text();
  return std::string(finding.verdict_word()) + (evidence.empty() ? "" : " (" + evidence + ")");
}

}  // namespace

pages::TextTable findings_table(const labs::LabResult& result, const SourceName& source) {
  pages::TextTable table{"", {"what", "expected", "whose", "ours", "agree"}, {}};
  for (const labs::Finding& finding : result.findings)
    table.rows.push_back({finding.what, finding.expected_text(), finding.whose_text(source.possessive),
                          finding.ours_text(), verdict_cell(finding)});
  return table;
}

}  // namespace cogwheel::reproduce
