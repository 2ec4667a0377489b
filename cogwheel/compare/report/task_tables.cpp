#include "cogwheel/compare/report/task_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "cogwheel/compare/report/sections.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/line_chart.h"

namespace cogwheel::compare {
namespace {

std::string column_head(const Comparison& comparison, const std::string& mechanism) {
  return fmt::format("<th scope=\"col\" class=\"series right\" style=\"--series:var({})\">{}</th>",
                     series_property(comparison, mechanism), pages::escape_html(comparison.plan(mechanism)->title));
}

// The mean over seeds and, of several, the lowest and the highest.
std::string cell(const std::vector<double>& values) {
  if (values.empty()) return "<td class=\"right num\"><span class=\"muted\">none</span></td>";
  double sum = 0;
  for (const double value : values) sum += value;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string range =
      values.size() == 1 ? "" : fmt::format("<small>{} to {}</small>", pages::fixed(*low, 3), pages::fixed(*high, 3));
  return fmt::format("<td class=\"right num\">{}{}</td>", pages::fixed(sum / static_cast<double>(values.size()), 3),
                     range);
}

// One measure by one difficulty: a row for each difficulty, a column for each mechanism.
TaskTable difficulty_table(const Comparison& comparison, std::size_t index, const runs::MeasuresByDifficulty& first,
                           const runs::Measure& measure) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<double>> values;
  std::size_t seeds = 0;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    std::size_t runs = 0;
    for (const RunResult* run : comparison.runs_of(plan.name)) {
      if (run->status != RunStatus::done || run->by_difficulty.size() <= index) continue;
      ++runs;
      for (const auto& point : run->by_difficulty[index].points)
        if (const double* value = runs::find_value(point.measured, measure.name))
          values[{point.difficulty, plan.name}].push_back(*value);
    }
    seeds = std::max(seeds, runs);
  }
  TaskTable table{
      .title = pages::capitalised(measure.title) + " by " + first.difficulty,
      .lead = fmt::format("{}Training showed {} up to {}; what lies beyond is marked.",
                          seeds > 1 ? fmt::format("Means of up to {} seeds, lowest to highest. ", seeds) : "",
                          first.difficulty, first.trained),
      .heads = fmt::format("<th scope=\"col\">{}</th>", pages::escape_html(first.difficulty)),
      .rows = {}};
  for (const MechanismPlan& plan : comparison.mechanisms) table.heads += column_head(comparison, plan.name);
  for (const auto& point : first.points) {
    std::string row = fmt::format("<th scope=\"row\">{}{}</th>", point.difficulty,
                                  point.difficulty > first.trained ? "<small>beyond training</small>" : "");
    for (const MechanismPlan& plan : comparison.mechanisms) row += cell(values[{point.difficulty, plan.name}]);
    table.rows += "        <tr>" + row + "</tr>\n";
  }
  pages::LineChart chart{
      .title = table.title,
      .x = {.title = first.difficulty, .logarithmic = true},
      .y = {.title = measure.title},
      .series = {},
      .marks = {{pages::ChartMark::Axis::x, static_cast<double>(first.trained), "trained up to here"}},
      .caption = seeds > 1 ? "Means over seeds; the table has the lowest and the highest." : ""};
  for (const MechanismPlan& plan : comparison.mechanisms) {
    pages::ChartSeries line{.name = plan.title, .x = {}, .y = {}, .property = series_property(comparison, plan.name)};
    for (const auto& point : first.points) {
      const std::vector<double>& found = values[{point.difficulty, plan.name}];
      if (found.empty()) continue;
      line.x.push_back(static_cast<double>(point.difficulty));
      line.y.push_back(std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size()));
    }
    chart.series.push_back(std::move(line));
  }
  if (first.points.size() > 1) {
    const pages::Figure figure = pages::line_chart_figure(chart);
    table.chart = fmt::format(
        "    <figure class=\"exhibit\">{}{}</figure>\n", figure.html,
        figure.caption.empty() ? "" : "<figcaption>" + pages::escape_html(figure.caption) + "</figcaption>");
  }
  return table;
}

// Rows are told by their first cell and how often it came before: models may have other ones.
using RowName = std::pair<std::string, std::int64_t>;

std::map<RowName, const std::vector<std::string>*> rows_by_name(const pages::TextTable& table,
                                                                std::vector<RowName>& order) {
  std::map<RowName, const std::vector<std::string>*> rows;
  std::map<std::string, std::int64_t> seen;
  for (const auto& row : table.rows) {
    const RowName name{row.front(), seen[row.front()]++};
    rows[name] = &row;
    if (std::find(order.begin(), order.end(), name) == order.end()) order.push_back(name);
  }
  return rows;
}

std::string text_cell(const std::string& text) {
  return fmt::format("<td{}>{}</td>", pages::reads_as_number(text) ? " class=\"right num\"" : "",
                     pages::cell_html(text));
}

// The tables of the models of one seed, side by side. A column that says the same of all of them stands once, the
// others below the name of each mechanism.
TaskTable inspection_table(const Comparison& comparison, const std::vector<const runs::Inspection*>& inspections,
                           std::size_t index) {
  const runs::Inspection& first = *inspections.front();
  const pages::TextTable& table = first.tables[index];
  std::vector<RowName> order;
  std::vector<std::pair<std::string, std::map<RowName, const std::vector<std::string>*>>> models;
  for (const runs::Inspection* inspection : inspections)
    if (inspection->seed == first.seed && inspection->tables.size() > index &&
        inspection->tables[index].columns == table.columns)
      models.emplace_back(inspection->mechanism, rows_by_name(inspection->tables[index], order));

  const auto text_of = [](const auto& rows, const RowName& name, std::size_t column) {
    const auto found = rows.find(name);
    return found == rows.end() ? std::string() : (*found->second)[column];
  };
  std::vector<std::size_t> shared, own;
  for (std::size_t column = 1; column < table.columns.size(); ++column) {
    const bool same = models.size() > 1 && std::all_of(order.begin(), order.end(), [&](const RowName& name) {
                        return std::all_of(models.begin(), models.end(), [&](const auto& model) {
                          return text_of(model.second, name, column) == text_of(models.front().second, name, column);
                        });
                      });
    (same ? shared : own).push_back(column);
  }

  // The names of columns below those of mechanisms where each has several.
  const bool two_rows = own.size() > 1;
  const std::string_view tall = two_rows ? " rowspan=\"2\"" : "";
  const auto head = [&](std::size_t column, std::string_view attributes) {
    return fmt::format("<th scope=\"col\"{}>{}</th>", attributes, pages::escape_html(table.columns[column]));
  };
  TaskTable shown{
      .title = table.title, .lead = fmt::format("Models of seed {}.", first.seed), .heads = head(0, tall), .rows = {}};
  for (const std::size_t column : shared) shown.heads += head(column, tall);
  std::string below;
  if (!own.empty())
    for (const auto& [mechanism, rows] : models) {
      shown.heads += two_rows ? fmt::format(
                                    "<th scope=\"colgroup\" colspan=\"{}\" class=\"series\" style=\"--series:var({})\">"
                                    "{}</th>",
                                    own.size(), series_property(comparison, mechanism),
                                    pages::escape_html(comparison.plan(mechanism)->title))
                              : column_head(comparison, mechanism);
      for (const std::size_t column : own) below += head(column, "");
    }
  if (two_rows) shown.heads += "</tr><tr>" + below;
  if (own.empty() && models.size() > 1) shown.lead += " All of them say the same.";
  if (own.size() == 1 && table.columns[own.front()] != "value")
    shown.lead += " " + pages::capitalised(table.columns[own.front()]) + ".";
  for (const RowName& name : order) {
    std::string row = fmt::format("<th scope=\"row\">{}</th>", pages::escape_html(name.first));
    for (const std::size_t column : shared) row += text_cell(text_of(models.front().second, name, column));
    for (const auto& [mechanism, rows] : models)
      for (const std::size_t column : own) row += text_cell(text_of(rows, name, column));
    shown.rows += "        <tr>" + row + "</tr>\n";
  }
  return shown;
}

}  // namespace

std::vector<TaskTable> task_tables(const Comparison& comparison,
                                   const std::vector<const runs::Inspection*>& inspections) {
  std::vector<TaskTable> tables;
  const auto measured = std::find_if(comparison.runs.begin(), comparison.runs.end(), [](const RunResult& run) {
    return run.status == RunStatus::done && !run.by_difficulty.empty();
  });
  if (measured != comparison.runs.end())
    for (std::size_t index = 0; index < measured->by_difficulty.size(); ++index)
      for (const runs::Measure& measure : comparison.task.measures) {
        const runs::MeasuresByDifficulty& first = measured->by_difficulty[index];
        if (!first.points.empty() && runs::find_value(first.points.front().measured, measure.name) != nullptr)
          tables.push_back(difficulty_table(comparison, index, first, measure));
      }
  if (inspections.empty()) return tables;
  for (std::size_t index = 0; index < inspections.front()->tables.size(); ++index) {
    // Results hold the same of every seed.
    const std::string& title = inspections.front()->tables[index].title;
    if (std::none_of(tables.begin(), tables.end(), [&](const TaskTable& table) { return table.title == title; }))
      tables.push_back(inspection_table(comparison, inspections, index));
  }
  return tables;
}

std::string task_tables_html(const std::vector<TaskTable>& tables) {
  std::string html;
  for (std::size_t index = 0; index < tables.size(); ++index)
    html += pages::fill_template(pages::embedded::task_table_html, {{"index", std::to_string(index)},
                                                                    {"title", pages::escape_html(tables[index].title)},
                                                                    {"lead", pages::escape_html(tables[index].lead)},
                                                                    {"chart", tables[index].chart},
                                                                    {"heads", tables[index].heads},
                                                                    {"rows", tables[index].rows}});
  return html;
}

}  // namespace cogwheel::compare
