#include "cogwheel/research/reproduce/trained_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/strict_table.h"
#include "cogwheel/runs/configuration/toml_text.h"
#include "cogwheel/runs/configuration/training_options.h"

namespace cogwheel::reproduce {
namespace {

using Relation = TestedClaim::Relation;

std::vector<std::string> row_names(const TrainedExperiment& experiment) {
  std::vector<std::string> names;
  for (const compare::Variant& variant : experiment.variants) {
    if (experiment.comparison.widths.empty()) names.push_back(variant.name);
    for (const std::int64_t width : experiment.comparison.widths)
      names.push_back(variant.name + compare::width_suffix(width));
  }
  return names;
}

void expect_row(const TrainedExperiment& experiment, const std::string& row, const std::string& what) {
  const std::vector<std::string> names = row_names(experiment);
  if (std::find(names.begin(), names.end(), row) == names.end())
    throw UsageError(expected_got(what, expected_names(row, names), row));
}

double share(double value, const std::string& what) {
  constexpr Range<double> shares{.min = 0, .max = 1, .min_excluded = true};
  expect_within(what, value, shares);
  return value;
}

const RequestedStudy* requested_study(const TrainedExperiment& experiment, std::string_view name) {
  for (const RequestedStudy& study : experiment.studies)
    if (study.entry->name == name) return &study;
  return nullptr;
}

// Of "heads.lambda@2": that the study is asked for, of this row, and has such a number.
void expect_number_of_study(const TrainedExperiment& experiment, const NumberOfRow& number, const std::string& row,
                            const std::string& what) {
  const std::size_t dot = number.measure.find('.');
  const std::string name = number.measure.substr(0, dot), part = number.measure.substr(dot + 1);
  const RequestedStudy* const study = requested_study(experiment, name);
  if (study == nullptr) {
    std::vector<std::string> names;
    for (const RequestedStudy& each : experiment.studies) names.push_back(each.entry->name);
    throw UsageError(expected_got(
        what, names.empty() ? "a measure, as no [[study]] is asked for" : expected_names(name, names), name));
  }
  const std::vector<inspect::StudyNumber>& numbers = study->entry->numbers;
  const auto found = std::ranges::find(numbers, part, &inspect::StudyNumber::name);
  if (found == numbers.end()) {
    std::vector<std::string> names;
    for (const inspect::StudyNumber& each : numbers) names.push_back(each.name);
    throw UsageError(expected_got(what, expected_names(part, names), part));
  }
  if (number.place.has_value() == found->place.empty())
    throw UsageError(expected_got(what,
                                  found->place.empty() ? number.measure + " without a place"
                                                       : number.measure + "@ and a number, the " + found->place,
                                  number.place ? "@" + number_text(*number.place) : number.measure));
  if (number.at != 1) throw UsageError(expected_got(what + " of a study", "at = 1", number_text(number.at)));
  if (!study->rows.empty() && std::ranges::find(study->rows, row) == study->rows.end())
    throw UsageError(expected_got(what, expected_names(row, study->rows) + ", of which the study is made", row));
}

// "accuracy", "accuracy@64", "heads.lambda@2".
NumberOfRow read_number(const std::string& text, double at, const std::string& what) {
  NumberOfRow number{.measure = text.substr(0, text.find('@')), .at = at};
  if (number.measure.size() == text.size()) return number;
  const std::string place = text.substr(number.measure.size() + 1);
  char* end = nullptr;
  number.place = std::strtod(place.c_str(), &end);
  if (number.measure.empty() || place.empty() || *end != '\0' || !std::isfinite(*number.place))
    throw UsageError(expected_got(what, "a name, @ and a number", text));
  if (at != 1 && !number.of_study())
    throw UsageError(expected_got(what + " with @", "at = 1, as it is of finished models", number_text(at)));
  return number;
}

SourceTable read_source_table(const TrainedExperiment& experiment, const toml::table& given, const std::string& what) {
  runs::StrictTable keys(given, what);
  SourceTable table{.caption = keys.required_text("caption"),
                    .columns = keys.texts("columns"),
                    .digits = static_cast<int>(keys.whole("digits", {0, 12}).value_or(2))};
  if (table.columns.empty()) throw UsageError(expected_got(keys.what("columns"), "a column at least", "none"));
  const std::vector<std::string> measures = keys.texts("measures");
  const std::vector<double> places = keys.numbers("at");
  const auto expect_columns = [&](std::size_t count, const std::string& key) {
    if (count != table.columns.size())
      throw UsageError(
          expected_got(key, fmt::format("{} values, a column each", table.columns.size()), std::to_string(count)));
  };
  if (!measures.empty()) expect_columns(measures.size(), keys.what("measures"));
  if (!places.empty()) expect_columns(places.size(), keys.what("at"));
  for (std::size_t column = 0; column < table.columns.size(); ++column)
    table.numbers.push_back(read_number(measures.empty() ? "" : measures[column],
                                        places.empty() ? 1 : share(places[column], keys.what("at")),
                                        keys.what("measures")));
  for (const toml::table* each : keys.tables("rows")) {
    runs::StrictTable row(*each, keys.what("rows"));
    SourceTable::Row read{.name = row.required_text("name"), .variant = row.text("variant").value_or(""), .values = {}};
    for (const double value : row.numbers("values"))
      read.values.push_back(std::isnan(value) ? std::nullopt : std::optional(value));  // nan: the source has none
    expect_columns(read.values.size(), row.what("values of " + read.name));
    if (!read.variant.empty()) expect_row(experiment, read.variant, row.what("variant"));
    for (const NumberOfRow& number : table.numbers)
      if (!read.variant.empty() && number.of_study())
        expect_number_of_study(experiment, number, read.variant, keys.what("measures"));
    row.finish();
    table.rows.push_back(std::move(read));
  }
  keys.finish();
  return table;
}

Source read_source(const TrainedExperiment& experiment, const toml::table& given, const std::string& what) {
  runs::StrictTable keys(given, what);
  Source source{.document = keys.required_text("document"),
                .place = keys.required_text("place"),
                .items = keys.texts("items"),
                .cost = keys.text("cost").value_or(""),
                .tables = {}};
  if (source.items.empty())
    throw UsageError(expected_got(keys.what("items"), "an item at least, as in \"S1-45\"", "none"));
  for (const toml::table* table : keys.tables("table"))
    source.tables.push_back(read_source_table(experiment, *table, keys.what("table")));
  keys.finish();
  return source;
}

// below = 0, above = 0, equal = 0.02, or crosses = "upwards".
void read_relation(runs::StrictTable& keys, Claim& claim) {
  int given = 0;
  for (const auto& [key, relation] :
       {std::pair{"below", Relation::below}, {"above", Relation::above}, {"equal", Relation::equal}})
    if (const auto bound = keys.number(key)) claim.relation = relation, claim.bound = *bound, ++given;
  if (const auto direction = keys.text("crosses")) {
    if (*direction != "upwards" && *direction != "downwards")
      throw UsageError(expected_got(keys.what("crosses"), "upwards or downwards", *direction));
    claim.relation = Relation::crosses, claim.rises = *direction == "upwards", ++given;
    if (claim.number.of_study())
      throw UsageError(expected_got(keys.what("crosses"), "a measure of the task", claim.number.measure));
    claim.later = claim.number;
    claim.later.at = share(keys.number("later_at").value_or(1), keys.what("later_at"));
    if (!(claim.later.at > claim.number.at))
      throw UsageError(expected_got(keys.what("at"), "below later_at = " + number_text(claim.later.at),
                                    number_text(claim.number.at)));
  }
  if (given != 1)
    throw UsageError(expected_got(keys.what(), "one of below, above, equal and crosses", std::to_string(given)));
  if (claim.relation == Relation::equal && !(claim.bound > 0))
    throw UsageError(expected_got(keys.what("equal"), "a margin above 0", number_text(claim.bound)));
  if (claim.every && (claim.relation == Relation::crosses || !claim.primary))
    throw UsageError(expected_got(keys.what("every"), "a primary claim with below, above or equal",
                                  claim.primary ? "one that crosses" : "one that is not primary"));
}

Claim read_claim(const TrainedExperiment& experiment, const toml::table& given, const std::string& file) {
  const std::string id = runs::StrictTable(given, file + ": claim").required_text("id");
  runs::StrictTable keys(given, file + ": claim " + id);
  Claim claim{.id = keys.required_text("id"),
              .says = keys.required_text("says"),
              .row = keys.required_text("row"),
              .against = keys.text("against").value_or(""),
              .number = read_number(keys.text("measure").value_or(""),
                                    share(keys.number("at").value_or(1), keys.what("at")), keys.what("measure")),
              .ours = keys.yes("ours").value_or(false),
              .primary = keys.yes("primary").value_or(false),
              .every = keys.yes("every").value_or(false),
              .printed = keys.number("printed")};
  expect_row(experiment, claim.row, keys.what("row"));
  if (!claim.against.empty()) expect_row(experiment, claim.against, keys.what("against"));
  for (const std::string& row : {claim.row, claim.against})
    if (claim.number.of_study() && !row.empty())
      expect_number_of_study(experiment, claim.number, row, keys.what("measure"));
  if (claim.row == claim.against) throw UsageError(expected_got(keys.what("against"), "another row", claim.row));
  read_relation(keys, claim);
  keys.finish();
  return claim;
}

RequestedStudy read_study(const TrainedExperiment& experiment, const toml::table& given, const std::string& what) {
  runs::StrictTable keys(given, what);
  const std::string name = keys.required_text("name");
  const inspect::StudyEntry& entry = inspect::find_study(name, keys.what("name"));
  if (requested_study(experiment, name) != nullptr)
    throw UsageError(expected_got(keys.what("name"), "each study once", name + " twice"));
  RequestedStudy study{.entry = &entry, .parameters = entry.parameters, .rows = keys.texts("rows")};
  for (const std::string& assignment : keys.texts("set")) study.parameters.assign(assignment, keys.what("set"));
  for (const std::string& row : study.rows) expect_row(experiment, row, keys.what("rows"));
  keys.finish();
  return study;
}

std::vector<std::int64_t> read_widths(runs::StrictTable& keys) {
  std::vector<std::int64_t> widths;
  for (const double width : keys.numbers("widths")) {
    if (width != std::floor(width) || !compare::widths_range.holds(static_cast<std::int64_t>(width)))
      throw UsageError(
          expected_got(keys.what("widths"), "whole numbers " + compare::widths_range.text(), number_text(width)));
    widths.push_back(static_cast<std::int64_t>(width));
  }
  return widths;
}

Scale read_scale(const toml::table& given, const std::string& what) {
  runs::StrictTable keys(given, what);
  constexpr Range<std::int64_t> counts{0, std::int64_t{1} << 50};
  Scale scale{.seeds = keys.whole("seeds", compare::seeds_range).value_or(3),
              .steps = keys.whole("steps", runs::steps_range).value_or(0),
              .learning_rate = keys.number("learning_rate", runs::learning_rate_range).value_or(0),
              .minutes = keys.number("minutes", {0, 1e6}).value_or(0),
              .set = keys.texts("set"),
              .widths = read_widths(keys),
              .bytes = keys.whole("bytes", counts).value_or(0),
              .vocabulary = keys.whole("vocabulary", counts).value_or(0),
              .note = keys.text("note").value_or("")};
  if (scale.steps == 0) throw UsageError(expected_got(keys.what("steps"), "a number of steps", "none"));
  keys.finish();
  return scale;
}

TrainedExperiment::Comparison read_comparison(const toml::table& given, const std::string& what) {
  runs::StrictTable keys(given, what);
  const auto text = [&](std::string_view key) { return keys.text(key).value_or(""); };
  TrainedExperiment::Comparison comparison{.task = text("task"),
                                           .preset = text("preset"),
                                           .form = text("form"),
                                           .position = text("position"),
                                           .match = text("match"),
                                           .tokenizer = text("tokenizer"),
                                           .baseline = text("baseline"),
                                           .tune = keys.whole("tune", compare::tune_range).value_or(0),
                                           .set = keys.texts("set"),
                                           .widths = read_widths(keys)};
  keys.finish();
  return comparison;
}

}  // namespace

const Scale& TrainedExperiment::scale(std::string_view scale_name) const {
  if (scale_name == "desk") return desk;
  if (scale_name == "paper" && paper) return *paper;
  throw UsageError(
      expected_got("--scale", paper ? "desk or paper" : "desk, the one that " + name + " has", scale_name));
}

bool sets_study(const TrainedExperiment& experiment, std::string_view assignment) {
  return std::ranges::any_of(experiment.studies,
                             [&](const auto& study) { return assignment.starts_with(study.entry->name + "."); });
}

void set_studies(TrainedExperiment& experiment, const std::vector<std::string>& assignments, const std::string& what) {
  for (const std::string& assignment : assignments)
    for (RequestedStudy& study : experiment.studies)
      if (const std::string prefix = study.entry->name + "."; assignment.starts_with(prefix))
        study.parameters.assign(assignment.substr(prefix.size()), what + " " + study.entry->name);
}

bool has_variants(std::string_view toml, const std::string& what) {
  return runs::parse_toml(toml, what).contains("variants");
}

TrainedExperiment parse_trained_experiment(std::string_view text, const std::string& name, const std::string& what) {
  const toml::table given = runs::parse_toml(text, what);
  runs::StrictTable keys(given, what);
  TrainedExperiment experiment{.name = name,
                               .title = keys.required_text("title"),
                               .question = keys.required_text("question"),
                               .variants = compare::parse_variants(text, what)};
  keys.table("variants");
  const auto required = [&](std::string_view key) -> const toml::table& {
    const toml::table* const table = keys.table(key);
    if (table == nullptr) throw UsageError(expected_got(keys.what(key), "a table", "none"));
    return *table;
  };
  if (const toml::table* comparison = keys.table("comparison"))
    experiment.comparison = read_comparison(*comparison, keys.what("comparison"));
  for (const toml::table* study : keys.tables("study"))
    experiment.studies.push_back(read_study(experiment, *study, keys.what("study")));
  experiment.source = read_source(experiment, required("source"), keys.what("source"));
  std::set<std::string> ids;
  for (const toml::table* claim : keys.tables("claim")) {
    experiment.claims.push_back(read_claim(experiment, *claim, what));
    if (const std::string& id = experiment.claims.back().id; !ids.insert(id).second)
      throw UsageError(expected_got(keys.what("claim"), "each id once", id + " twice"));
  }
  experiment.traps = keys.texts("traps");
  experiment.desk = read_scale(required("desk"), keys.what("desk"));
  if (!experiment.desk.widths.empty())
    throw UsageError(
        expected_got(keys.what("desk: widths"), "those of [comparison], of whose rows claims are", "others"));
  if (const toml::table* paper = keys.table("paper")) experiment.paper = read_scale(*paper, keys.what("paper"));
  TrainedExperiment tried = experiment;  // whose studies take what its scales set
  set_studies(tried, experiment.desk.set, keys.what("desk: set"));
  if (experiment.paper) set_studies(tried, experiment.paper->set, keys.what("paper: set"));
  keys.finish();
  return experiment;
}

}  // namespace cogwheel::reproduce
