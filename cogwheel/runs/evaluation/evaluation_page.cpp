#include "cogwheel/runs/evaluation/evaluation_page.h"

#include <fmt/format.h>

#include <cmath>
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

std::string name_of(const KeptNumbers& kept) {
  std::string name;
  if (kept.weights != nn::NumberType::float32) name = fmt::format("{} weights", nn::name_of(kept.weights));
  if (kept.cache != nn::NumberType::float32)
    name += fmt::format("{}{} keys and values", name.empty() ? "" : " and ", nn::name_of(kept.cache));
  return name;
}

pages::DocumentSection past_context_section(const NarrowingCost& cost, const TaskDescription& task) {
  pages::TextTable table{.title = {}, .columns = {"context", "loss, " + task.decisive().unit}, .rows = {}};
  for (std::size_t index = 0; index < cost.past_context.size(); ++index)
    table.rows.push_back({std::to_string(index + 1), pages::fixed(cost.past_context[index], 5)});
  return {.title = "Past the context",
          .lead = fmt::format(
              "Of held-out texts of {} contexts, with the first {} tokens and the newest as keys and values{}.",
              cost.past_context.size(), cost.kept.sink, cost.kept.narrow() ? ", " + name_of(cost.kept) : ""),
          .tables = {std::move(table)}};
}

// " Of texts of 16 contexts with sink 4, loss 1.31 in the first and 1.30 in the last context."
std::string past_context_verdict(const NarrowingCost& cost) {
  return fmt::format(" Of texts of {} contexts with sink {}: loss {} in the first context, {} in the last.",
                     cost.past_context.size(), cost.kept.sink, pages::fixed(cost.past_context.front(), 4),
                     pages::fixed(cost.past_context.back(), 4));
}

pages::DocumentSection narrowing_section(const NarrowingCost& cost, const TaskDescription& task) {
  const std::string unit = task.decisive().unit;
  pages::TextTable table{.title = {}, .columns = {"", "value"}, .rows = {}};
  table.rows.push_back({"loss in fp32, " + unit, pages::fixed(cost.loss, 5)});
  table.rows.push_back({"loss with these, " + unit, pages::fixed(cost.kept_loss, 5)});
  table.rows.push_back({"difference", pages::fixed(cost.kept_loss - cost.loss, 5)});
  table.rows.push_back({"another likeliest next token", fmt::format("{:.3f} %", 100 * cost.other_next)});
  if (cost.flipped_scores)
    table.rows.push_back({"scores with another sign", fmt::format("{:.3f} %", 100 * *cost.flipped_scores)});
  if (cost.flipped_weights)
    table.rows.push_back({"weights with another sign", fmt::format("{:.3f} %", 100 * *cost.flipped_weights)});
  return {.title = pages::capitalised(name_of(cost.kept)),
          .lead = fmt::format("On {} held-out {}s.", pages::grouped(cost.tokens), task.item),
          .tables = {std::move(table)}};
}

// " With int8 weights loss 1.2352, 0.0007 more; another likeliest next token 0.52 %; …"
std::string narrowing_verdict(const NarrowingCost& cost) {
  const double more = cost.kept_loss - cost.loss;
  std::string text = fmt::format(
      " With {}, on {} of these: loss {} instead of {}, {} {}, another likeliest next token {:.2f} %",
      name_of(cost.kept), pages::grouped(cost.tokens), pages::fixed(cost.kept_loss, 4), pages::fixed(cost.loss, 4),
      pages::fixed(std::abs(more), 4), more < 0 ? "less" : "more", 100 * cost.other_next);
  if (cost.flipped_scores) text += fmt::format(", flipped signs of scores {:.2f} %", 100 * *cost.flipped_scores);
  if (cost.flipped_weights) text += fmt::format(", of weights {:.2f} %", 100 * *cost.flipped_weights);
  return text + ".";
}

Json narrowing_json(const NarrowingCost& cost) {
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json json{{"weights", nn::name_of(cost.kept.weights)}, {"cache", nn::name_of(cost.kept.cache)}};
  if (cost.kept.narrow()) {
    json["tokens"] = cost.tokens;
    json["loss"] = cost.loss;
    json["kept_loss"] = cost.kept_loss;
    json["other_next"] = cost.other_next;
    json["flipped_scores"] = or_null(cost.flipped_scores);
    json["flipped_weights"] = or_null(cost.flipped_weights);
  }
  if (cost.kept.sink >= 0) {
    json["sink"] = cost.kept.sink;
    json["past_context"] = cost.past_context;
  }
  return json;
}

}  // namespace

std::string evaluation_verdict(const EvaluationOfRun& evaluation) {
  std::string text;
  for (const Measure& measure : evaluation.task.measures)
    if (const double* value = find_value(evaluation.measured, measure.name))
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", measure.title, pages::fixed(*value, 4),
                          measure.unit.empty() ? "" : " " + measure.unit);
  return pages::capitalised(text) + (evaluation.data.evaluates_part() ? ", " + scope(evaluation) : "") + "." +
         (evaluation.narrowing && evaluation.narrowing->kept.narrow() ? narrowing_verdict(*evaluation.narrowing) : "") +
         (evaluation.narrowing && evaluation.narrowing->kept.sink >= 0 ? past_context_verdict(*evaluation.narrowing)
                                                                       : "");
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
  if (evaluation.narrowing && evaluation.narrowing->kept.narrow())
    document.sections.push_back(narrowing_section(*evaluation.narrowing, evaluation.task));
  if (evaluation.narrowing && evaluation.narrowing->kept.sink >= 0)
    document.sections.push_back(past_context_section(*evaluation.narrowing, evaluation.task));
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
  Json json{{"schema", 1},
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
  if (evaluation.narrowing) json["narrowing"] = narrowing_json(*evaluation.narrowing);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel::runs
