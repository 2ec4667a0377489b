#include "cogwheel/runs/evaluation_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cogwheel/pages/document.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/measures_json.h"
#include "cogwheel/runs/shown_figure.h"

namespace cogwheel::runs {
namespace {

// One row for each difficulty.
pages::TextTable difficulty_table(const MeasuresByDifficulty& measures, const TaskDescription& task) {
  pages::TextTable table{.title = "By " + measures.difficulty, .columns = {measures.difficulty}, .rows = {}};
  std::vector<std::string> names;
  for (const Measure& measure : task.measures)
    if (!measures.points.empty() && find_value(measures.points.front().measured, measure.name) != nullptr) {
      names.push_back(measure.name);
      table.columns.push_back(measure.title);
    }
  for (const auto& point : measures.points) {
    table.rows.push_back(
        {pages::grouped(point.difficulty) + (point.difficulty > measures.trained ? " (beyond training)" : "")});
    for (const std::string& name : names) {
      const double* value = find_value(point.measured, name);
      table.rows.back().push_back(value == nullptr ? "none" : pages::fixed(*value, 4));
    }
  }
  return table;
}

// "On 8,192 of 838,839 held-out characters", or "On 838,839 held-out characters".
std::string scope(const EvaluationOfRun& evaluation) {
  const DataFacts& data = evaluation.data;
  return fmt::format("on {}{} held-out {}s", pages::grouped(data.evaluated_tokens),
                     data.evaluates_part() ? " of " + pages::grouped(data.held_out_tokens) : "", evaluation.task.item);
}

pages::DocumentSection measures_section(const EvaluationOfRun& evaluation) {
  pages::DocumentSection section{.title = "Measures",
                                 .lead = fmt::format("{}{}.", pages::capitalised(scope(evaluation)),
                                                     evaluation.trained_here ? " that training has not seen" : "")};
  pages::TextTable table{.title = {}, .columns = {"measure", "value", "unit", "better"}, .rows = {}};
  for (const Measure& measure : evaluation.task.measures)
    if (const double* value = find_value(evaluation.measured, measure.name))
      table.rows.push_back(
          {measure.title, pages::fixed(*value, 4), measure.unit, measure.lower_is_better ? "lower" : "higher"});
  section.tables.push_back(std::move(table));
  for (const MeasuresByDifficulty& measures : evaluation.inspection.by_difficulty)
    section.tables.push_back(difficulty_table(measures, evaluation.task));
  return section;
}

}  // namespace

std::string evaluation_verdict(const EvaluationOfRun& evaluation) {
  std::string text;
  for (const Measure& measure : evaluation.task.measures)
    if (const double* value = find_value(evaluation.measured, measure.name))
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", measure.title, pages::fixed(*value, 4),
                          measure.unit.empty() ? "" : " " + measure.unit);
  return pages::capitalised(text) + (evaluation.data.evaluates_part() ? ", " + scope(evaluation) : "") + ".";
}

std::string evaluation_page(const EvaluationOfRun& evaluation, const std::string& command, const std::string& created,
                            const std::string& version) {
  const RunConfig& config = evaluation.config;
  const ConstCommonOptions model = common(config.model);
  const Inspection& inspection = evaluation.inspection;
  const std::string mechanism = mechanism_text(config.model, "model.mechanism").title;
  pages::Document document{
      .title = fmt::format("{}: {} on {}", config.name, mechanism, evaluation.task.name),
      .kind = "Cogwheel evaluation",
      .created = created,
      .verdict = evaluation_verdict(evaluation),
      .facts = {{"Task", evaluation.task.name, evaluation.task.summary},
                {"Model", mechanism,
                 fmt::format("{}, width {}, {} parameters", pages::counted(model.layers, "layer"),
                             pages::grouped(model.width), pages::rounded_count(evaluation.parameters))},
                evaluation.trained_here
                    ? pages::DocumentFact{"Training", pages::counted(config.training.steps, "step"),
                                          fmt::format("batch {}, seed {}", config.training.batch, config.training.seed)}
                    : pages::DocumentFact{"Training", "elsewhere", "imported weights"},
                {"Data", evaluation.data.name,
                 evaluation.data.sha256.empty() ? "" : "SHA-256 " + evaluation.data.sha256.substr(0, 12) + "…"}},
      .sections = {measures_section(evaluation)},
      .command = command,
      .written_by = "cogwheel evaluate",
      .version = version};
  if (!inspection.tables.empty() || !inspection.figures.empty()) {
    pages::DocumentSection shown{.title = "What it does"};
    for (const pages::TextTable& table : inspection.tables)
      // The same numbers stand among the measures.
      if (inspection.by_difficulty.empty()) shown.tables.push_back(table);
    for (const ShownFigure& figure : inspection.figures) shown.figures.push_back(drawn_figure(figure));
    if (!shown.tables.empty() || !shown.figures.empty()) document.sections.push_back(std::move(shown));
  }
  if (!inspection.sample.empty())
    document.sections.push_back(
        {.title = "Sample",
         .tables = {{.title = {}, .columns = {"given", "made"}, .rows = {{inspection.prompt, inspection.sample}}}}});
  return pages::document_page(document);
}

std::string evaluation_to_json(const EvaluationOfRun& evaluation) {
  Json measures = Json::object(), tables = Json::array();
  for (const MeasuredValue& each : evaluation.measured) measures[each.measure] = each.value;
  for (const pages::TextTable& table : evaluation.inspection.tables)
    tables.push_back({{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  const Json json{{"schema", 1},
                  {"task", evaluation.task.name},
                  {"mechanism", common(evaluation.config.model).mechanism},
                  {"seed", evaluation.trained_here ? Json(evaluation.config.training.seed) : Json(nullptr)},
                  {"steps", evaluation.trained_here ? Json(evaluation.config.training.steps) : Json(nullptr)},
                  {"parameters", evaluation.parameters},
                  {"data_sha256", evaluation.data.sha256},
                  {"held_out_tokens", evaluation.data.held_out_tokens},
                  {"evaluated_tokens", evaluation.data.evaluated_tokens},
                  {"measures", measures},
                  {"by_difficulty", write_json(evaluation.inspection.by_difficulty)},
                  {"tables", tables}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel::runs
