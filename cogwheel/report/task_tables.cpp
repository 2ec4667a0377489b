#include "cogwheel/report/task_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cogwheel/report/embedded.h"
#include "cogwheel/report/html.h"
#include "cogwheel/report/line_chart.h"
#include "cogwheel/report/sections.h"

namespace cogwheel {
namespace {

std::string column_head(const Comparison& comparison, const std::string& mechanism) {
  return fmt::format("<th scope=\"col\" class=\"series right\" style=\"--series:var({})\">{}</th>",
                     series_property(comparison, mechanism), escape_html(comparison.plan(mechanism)->title));
}

// The mean over seeds and, of several, the lowest and the highest.
std::string cell(const std::vector<double>& values) {
  if (values.empty()) return "<td class=\"right num\"><span class=\"muted\">none</span></td>";
  double sum = 0;
  for (const double value : values) sum += value;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string range =
      values.size() == 1 ? "" : fmt::format("<small>{} to {}</small>", fixed(*low, 3), fixed(*high, 3));
  return fmt::format("<td class=\"right num\">{}{}</td>", fixed(sum / static_cast<double>(values.size()), 3), range);
}

// One measure by one difficulty: a row for each difficulty, a column for each mechanism.
TaskTable difficulty_table(const Comparison& comparison, std::size_t index, const MeasuresByDifficulty& first,
                           const Measure& measure) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<double>> values;
  std::size_t seeds = 0;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    std::size_t runs = 0;
    for (const RunResult* run : comparison.runs_of(plan.name)) {
      if (run->status != RunStatus::done || run->by_difficulty.size() <= index) continue;
      ++runs;
      for (const auto& point : run->by_difficulty[index].points)
        if (const double* value = find_value(point.measured, measure.name))
          values[{point.difficulty, plan.name}].push_back(*value);
    }
    seeds = std::max(seeds, runs);
  }
  TaskTable table{
      .title = capitalised(measure.title) + " by " + first.difficulty,
      .lead = fmt::format("{}Training showed {} up to {}; what lies beyond is marked.",
                          seeds > 1 ? fmt::format("Means of up to {} seeds, lowest to highest. ", seeds) : "",
                          first.difficulty, first.trained),
      .heads = fmt::format("<th scope=\"col\">{}</th>", escape_html(first.difficulty)),
      .rows = {}};
  for (const MechanismPlan& plan : comparison.mechanisms) table.heads += column_head(comparison, plan.name);
  for (const auto& point : first.points) {
    std::string row = fmt::format("<th scope=\"row\">{}{}</th>", point.difficulty,
                                  point.difficulty > first.trained ? "<small>beyond training</small>" : "");
    for (const MechanismPlan& plan : comparison.mechanisms) row += cell(values[{point.difficulty, plan.name}]);
    table.rows += "        <tr>" + row + "</tr>\n";
  }
  LineChart chart{.title = table.title,
                  .x = {.title = first.difficulty, .logarithmic = true},
                  .y = {.title = measure.title},
                  .series = {},
                  .marks = {{ChartMark::Axis::x, static_cast<double>(first.trained), "trained up to here"}},
                  .caption = seeds > 1 ? "Means over seeds; the table has the lowest and the highest." : ""};
  for (const MechanismPlan& plan : comparison.mechanisms) {
    ChartSeries line{.name = plan.title, .x = {}, .y = {}, .property = series_property(comparison, plan.name)};
    for (const auto& point : first.points) {
      const std::vector<double>& found = values[{point.difficulty, plan.name}];
      if (found.empty()) continue;
      line.x.push_back(static_cast<double>(point.difficulty));
      line.y.push_back(std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size()));
    }
    chart.series.push_back(std::move(line));
  }
  if (first.points.size() > 1) {
    const Figure figure = line_chart_figure(chart);
    table.chart =
        fmt::format("    <figure class=\"exhibit\">{}{}</figure>\n", figure.html,
                    figure.caption.empty() ? "" : "<figcaption>" + escape_html(figure.caption) + "</figcaption>");
  }
  return table;
}

// A table of each model of one seed, side by side: a row for each first cell, a column for each mechanism.
TaskTable inspection_table(const Comparison& comparison, const std::vector<const Inspection*>& inspections,
                           std::size_t index) {
  const Inspection& first = *inspections.front();
  const TextTable& table = first.tables[index];
  std::string heads = fmt::format("<th scope=\"col\">{}</th>", escape_html(table.columns.front())), rows;
  std::vector<std::string> lines;
  for (const auto& row : table.rows)
    lines.push_back(fmt::format("<th scope=\"row\">{}</th>", escape_html(row.front())));
  for (const Inspection* inspection : inspections) {
    if (inspection->seed != first.seed || inspection->tables.size() <= index) continue;
    heads += column_head(comparison, inspection->mechanism);
    for (std::size_t line = 0; line < lines.size() && line < inspection->tables[index].rows.size(); ++line) {
      std::string cells;
      const auto& row = inspection->tables[index].rows[line];
      for (std::size_t cell = 1; cell < row.size(); ++cell) cells += (cell > 1 ? " · " : "") + row[cell];
      lines[line] += fmt::format("<td class=\"right num\">{}</td>", escape_html(cells));
    }
  }
  for (const std::string& line : lines) rows += "        <tr>" + line + "</tr>\n";
  return {.title = table.title, .lead = fmt::format("Models of seed {}.", first.seed), .heads = heads, .rows = rows};
}

}  // namespace

std::vector<TaskTable> task_tables(const Comparison& comparison, const std::vector<const Inspection*>& inspections) {
  std::vector<TaskTable> tables;
  const auto measured = std::find_if(comparison.runs.begin(), comparison.runs.end(), [](const RunResult& run) {
    return run.status == RunStatus::done && !run.by_difficulty.empty();
  });
  if (measured != comparison.runs.end())
    for (std::size_t index = 0; index < measured->by_difficulty.size(); ++index)
      for (const Measure& measure : comparison.task.measures) {
        const MeasuresByDifficulty& first = measured->by_difficulty[index];
        if (!first.points.empty() && find_value(first.points.front().measured, measure.name) != nullptr)
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
    html += fill_template(embedded::task_table_html, {{"index", std::to_string(index)},
                                                      {"title", escape_html(tables[index].title)},
                                                      {"lead", escape_html(tables[index].lead)},
                                                      {"chart", tables[index].chart},
                                                      {"heads", tables[index].heads},
                                                      {"rows", tables[index].rows}});
  return html;
}

}  // namespace cogwheel
