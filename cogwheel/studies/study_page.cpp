#include "cogwheel/studies/study_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cogwheel/core/duration_text.h"
#include "cogwheel/report/document.h"
#include "cogwheel/report/results_csv.h"

namespace cogwheel {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string study_csv(const TextTable& table) {
  std::string csv;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> quoted;
    for (const std::string& each : cells) quoted.push_back(csv_cell(each));
    csv += fmt::format("{}\n", fmt::join(quoted, ","));
  };
  add(table.columns);
  for (const auto& row : table.rows) add(row);
  return csv;
}

std::string study_page(const FinishedStudy& study) {
  Document document{.title = study.study->title,
                    .kind = "Cogwheel study",
                    .created = study.created,
                    .verdict = study.result.answer,
                    .facts = {{"Study", study.study->name, {}}},
                    .command = study.command,
                    .written_by = "cogwheel inspect",
                    .version = study.version};
  for (std::size_t run = 0; run < study.runs.size(); ++run)
    document.facts.push_back({"Run", study.runs[run],
                              study.mechanisms[run] + ", checkpoint SHA-256 " + study.checkpoints[run].substr(0, 12)});
  document.facts.push_back({"Took", duration_text(study.seconds), study.cpu});
  DocumentSection found{.title = "What was found", .lead = study.study->question};
  for (const StudyTable& table : study.result.tables)
    if (table.on_page) found.tables.push_back(table.table);
  document.sections.push_back(std::move(found));
  DocumentSection shown{.title = "What it looks like"};
  for (const LineChart& chart : study.result.charts) shown.figures.push_back(line_chart_figure(chart));
  shown.figures.insert(shown.figures.end(), study.result.figures.begin(), study.result.figures.end());
  if (!shown.figures.empty()) document.sections.push_back(std::move(shown));
  document.sections.push_back({.title = "What to mind", .remarks = study.result.remarks});
  TextTable parameters{"", {"parameter", "value", "what it is", "range"}, {}};
  for (const LabParameter& parameter : study.parameters.all())
    parameters.rows.push_back({parameter.name, parameter.text(), parameter.meaning, parameter.range_text()});
  document.sections.push_back(
      {.title = "Parameters", .lead = "Change them with --set name=value.", .tables = {parameters}});
  return document_page(document);
}

std::string study_json(const FinishedStudy& study) {
  Json parameters = Json::object(), runs = Json::array(), tables = Json::array(), remarks = Json::array();
  for (const LabParameter& parameter : study.parameters.all())
    parameters[parameter.name] = Json::parse(parameter.text());
  for (std::size_t run = 0; run < study.runs.size(); ++run)
    runs.push_back({{"run", study.runs[run]},
                    {"mechanism", study.mechanisms[run]},
                    {"checkpoint_sha256", study.checkpoints[run]}});
  for (const StudyTable& table : study.result.tables)
    tables.push_back({{"name", table.file},
                      {"title", table.table.title},
                      {"columns", table.table.columns},
                      {"rows", table.table.rows}});
  for (const auto& [about, text] : study.result.remarks) remarks.push_back(about + " " + text);
  const Json json{{"schema", 1},
                  {"study", study.study->name},
                  {"question", study.study->question},
                  {"answer", study.result.answer},
                  {"command", study.command},
                  {"version", study.version},
                  {"created", study.created},
                  {"cpu", study.cpu},
                  {"seconds", study.seconds},
                  {"parameters", std::move(parameters)},
                  {"runs", std::move(runs)},
                  {"tables", std::move(tables)},
                  {"remarks", std::move(remarks)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel
