#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/research/reproduce/reproduction.h"
#include "cogwheel/runs/json_fields.h"

namespace cogwheel::reproduce {
namespace {

using Json = nlohmann::ordered_json;

Json finding_json(const labs::Finding& finding, const SourceName& source) {
  Json json{{"what", finding.what}, {"relation", labs::Finding::relation_name(finding.relation)}};
  const std::optional<labs::Verdict> verdict = finding.verdict();
  if (verdict)
    json["expected"] = finding.expected, json["tolerance"] = finding.tolerance,
    json["whose"] = finding.whose_text(source.possessive);
  json["ours"] = finding.ours;  // null where it is not finite
  if (!finding.values.empty()) json["values"] = finding.values;
  if (finding.tested) {
    const compare::ClaimResult& tested = *finding.tested;
    if (tested.interval) json["interval"] = *tested.interval;
    if (tested.confidence) json["confidence"] = *tested.confidence;
    if (tested.p_adjusted) json["p"] = *tested.p_adjusted;
    if (tested.visible) json["visible"] = *tested.visible, json["draws_needed"] = runs::write_json(tested.seeds_needed);
  }
  json["agrees"] = finding.agrees() ? Json(*finding.agrees()) : Json(nullptr);
  json["verdict"] = verdict ? Json(compare::verdict_name(*verdict)) : Json(nullptr);
  if (!finding.remark.empty()) json["remark"] = finding.remark;
  return json;
}

Json chart_json(const pages::LineChart& chart) {
  Json series = Json::array();
  for (const pages::ChartSeries& each : chart.series) {
    series.push_back({{"name", each.name}, {"x", each.x}, {"y", each.y}});
    if (!each.error.empty()) series.back()["error"] = each.error;
  }
  return {{"title", chart.title}, {"x", chart.x.title}, {"y", chart.y.title}, {"series", std::move(series)}};
}

}  // namespace

std::string reproduction_page(const Reproduction& reproduction) {
  const LabExperiment& experiment = reproduction.experiment;
  const labs::LabResult& result = reproduction.result;
  const SourceName& source = *experiment.source;
  pages::Document document{.title = experiment.lab->title,
                           .kind = "Cogwheel experiment",
                           .created = reproduction.created,
                           .verdict = result.answer,
                           .facts = {{"Experiment", experiment.name, "lab " + experiment.lab->name},
                                     {"Source", std::string(experiment.source->title), experiment.section},
                                     {"Took", duration_text(reproduction.seconds), reproduction.cpu}},
                           .command = reproduction.command,
                           .written_by = "cogwheel reproduce",
                           .version = reproduction.version};
  pages::DocumentSection numbers{.title = fmt::format("What follows from {}, and what was found", source.called),
                                 .lead = experiment.lab->question + " " + agreement(result, source),
                                 .tables = {findings_table(result, source)}};
  for (const labs::Finding& finding : result.findings)
    if (!finding.remark.empty()) numbers.remarks.emplace_back(finding.what, finding.remark);
  numbers.remarks.emplace_back(
      "Whose:",
      fmt::format(
          "the number is printed in {}, follows from {} formulas, or which of two is larger is said there; or the "
          "bound is our own. How near is near enough is always our choice. docs/references.md says what the source is.",
          source.called, source.possessive));
  if (std::ranges::any_of(result.findings, [](const auto& finding) { return finding.tested.has_value(); }))
    numbers.remarks.emplace_back(
        "Numbers of several draws",
        "are tested together, with Holm’s correction at 5 %, nearness by two one-sided tests; their intervals have the "
        "confidence of these tests. Where they cannot tell, the table names the difference that as many draws would "
        "have shown in four of five repetitions, and how many the one found would take.");
  document.sections.push_back(std::move(numbers));
  pages::DocumentSection shown{.title = "What was found"};
  for (const pages::LineChart& chart : result.charts) shown.figures.push_back(pages::line_chart_figure(chart));
  for (const pages::MatrixMap& map : result.maps) shown.figures.push_back(pages::matrix_map_figure(map));
  shown.figures.insert(shown.figures.end(), result.figures.begin(), result.figures.end());
  if (!shown.figures.empty()) document.sections.push_back(std::move(shown));
  if (!result.tables.empty()) document.sections.push_back({.title = "Tables", .tables = result.tables});
  pages::DocumentSection assumptions{.title = "What is assumed", .remarks = result.assumptions};
  assumptions.remarks.emplace_back(
      "Everything is drawn from the seed.",
      result.timed ? "All but the times is the same, bit for bit, when it is run again."
                   : "Run again on this machine, every number is the same, bit for bit, on any number of threads.");
  document.sections.push_back(std::move(assumptions));
  pages::TextTable parameters{"", {"parameter", "value", "what it is", "range"}, {}};
  for (const LabParameter& parameter : experiment.parameters.all())
    parameters.rows.push_back({parameter.name, parameter.text(), parameter.meaning, parameter.range_text()});
  document.sections.push_back({.title = "Parameters",
                               .lead = "Change them with --set name=value; lists are numbers separated by commas.",
                               .tables = {parameters}});
  return pages::document_page(document);
}

std::string reproduction_json(const Reproduction& reproduction) {
  const LabExperiment& experiment = reproduction.experiment;
  const labs::LabResult& result = reproduction.result;
  const SourceName& source = *experiment.source;
  Json parameters = Json::object();
  for (const LabParameter& parameter : experiment.parameters.all())
    parameters[parameter.name] = Json::parse(parameter.text());
  Json json{{"schema", 2},
            {"experiment", experiment.name},
            {"lab", experiment.lab->name},
            {"section", experiment.section},
            {"source",
             {{"document", source.document},
              {"title", source.title},
              {"place", experiment.section},
              {"items", experiment.items}}},
            {"command", reproduction.command},
            {"version", reproduction.version},
            {"created", reproduction.created},
            {"cpu", reproduction.cpu},
            {"seconds", reproduction.seconds},
            {"timed", result.timed},
            {"parameters", std::move(parameters)},
            {"question", experiment.lab->question},
            {"answer", result.answer},
            {"agreement", agreement(result, source)},
            {"findings", Json::array()},
            {"charts", Json::array()},
            {"maps", Json::array()},
            {"tables", Json::array()}};
  if (source.folder == "s2") json["lecture"] = source.title;  // as files had it before there were labs of other sources
  for (const labs::Finding& finding : result.findings) json["findings"].push_back(finding_json(finding, source));
  for (const pages::LineChart& chart : result.charts) json["charts"].push_back(chart_json(chart));
  for (const pages::MatrixMap& map : result.maps)
    json["maps"].push_back(
        {{"title", map.title}, {"rows", map.rows}, {"columns", map.columns}, {"values", map.values}});
  for (const pages::TextTable& table : result.tables)
    json["tables"].push_back({{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel::reproduce
