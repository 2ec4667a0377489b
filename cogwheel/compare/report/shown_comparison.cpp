#include "cogwheel/compare/report/shown_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/line_chart.h"

namespace cogwheel::compare {
namespace {

// Of a run's point; none where it was not measured.
using ValueAt = std::function<std::optional<double>(const RunResult& run, std::size_t point)>;

const std::vector<CurvePoint>* longest_curve(const Comparison& comparison, std::string_view mechanism) {
  const std::vector<CurvePoint>* longest = nullptr;
  for (const RunResult* run : comparison.runs_of(mechanism))
    if (run->curve.size() > 1 && (longest == nullptr || run->curve.size() > longest->size())) longest = &run->curve;
  return longest;
}

// Means over the seeds that reached a point. As in the report, the first quarter is left out, which falls so steeply
// that it would flatten the rest; and where budgets are unequal, points meet at equal shares of the runs.
std::vector<pages::ChartSeries> curves(const Comparison& comparison, bool share_of_run, const ValueAt& value) {
  std::vector<pages::ChartSeries> series;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const auto* const longest = longest_curve(comparison, plan.name);
    if (longest == nullptr) continue;
    pages::ChartSeries one{.name = plan.title, .x = {}, .y = {}};
    one.points = false;
    one.property = series_property(comparison, plan.name);
    const auto last = static_cast<double>(longest->back().step);
    for (std::size_t point = 0; point < longest->size(); ++point) {
      const auto step = static_cast<double>((*longest)[point].step);
      if (longest->size() >= 6 && step < last / 4) continue;
      double sum = 0, count = 0;
      for (const RunResult* run : comparison.runs_of(plan.name))
        if (point < run->curve.size())
          if (const auto found = value(*run, point); found && std::isfinite(*found)) sum += *found, ++count;
      one.x.push_back(share_of_run ? 100 * step / static_cast<double>(plan.steps) : step);
      one.y.push_back(count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN());
    }
    series.push_back(std::move(one));
  }
  return series;
}

std::string curves_html(const Comparison& comparison) {
  const runs::Measure& measure = comparison.task.decisive();
  const bool share_of_run = comparison.match == "time";
  const ValueAt measured = [&](const RunResult& run, std::size_t point) -> std::optional<double> {
    const double* const value = runs::find_value(run.curve[point].measured, measure.name);
    return value == nullptr ? std::nullopt : std::optional(*value);
  };
  const ValueAt difference = [&](const RunResult& run, std::size_t point) -> std::optional<double> {
    const RunResult* const base = comparison.run(comparison.base_of(run.mechanism), run.seed);
    if (base == nullptr || point >= base->curve.size()) return std::nullopt;
    const auto own = measured(run, point), other = measured(*base, point);
    return own && other ? std::optional(*own - *other) : std::nullopt;
  };
  const auto values = curves(comparison, share_of_run, measured);
  if (values.empty()) return "";
  pages::ChartAxis steps{.title = share_of_run ? "% of the run" : "step"};
  for (const pages::ChartSeries& series : values)
    if (!series.x.empty()) steps.min = std::min(steps.min.value_or(series.x.front()), series.x.front());
  const auto figure = [&](const std::string& title, std::vector<pages::ChartSeries> series) {
    return pages::figure_html(pages::line_chart_figure(
        {.title = title, .x = steps, .y = {.title = measure.unit}, .series = std::move(series)}));
  };
  std::string html = figure(pages::capitalised(measure.title), values);
  if (values.size() > 1)
    html += figure(fmt::format("{}, minus {}", pages::capitalised(measure.label), baseline_in_sentence(comparison)),
                   curves(comparison, share_of_run, difference));
  return fmt::format("<div class=\"panels\">\n{}</div>\n", html);
}

std::string plus_minus(std::string value, const std::optional<double>& interval) {
  return interval ? fmt::format("{} ± {}", value, pages::fixed(*interval, 4)) : value;
}

// What the table of the report says, on a screen.
pages::TextTable table(const Comparison& comparison) {
  pages::TextTable table{
      .title = "",
      .columns = {"mechanism", comparison.task.decisive().title, "minus " + baseline_in_sentence(comparison),
                  "in words", comparison.task.counted + " per second", "parameters"},
      .rows = {}};
  for (const SummaryRow& row : comparison.summary)
    table.rows.push_back(
        {comparison.plan(row.mechanism)->title,
         row.mean ? plus_minus(pages::fixed(*row.mean, 4), row.interval) : "no run finished",
         row.difference ? plus_minus(pages::signed_fixed(*row.difference, 4), row.difference_interval) : "",
         reading_words(comparison, row),
         row.mean ? pages::grouped(std::llround(run_means(comparison, row.mechanism).tokens_per_second)) : "",
         pages::grouped(comparison.plan(row.mechanism)->parameters)});
  return table;
}

}  // namespace

pages::NotebookOutput shown_comparison(const Comparison& comparison, std::string_view report) {
  const std::string title = title_of(comparison), where = report.empty() ? "" : fmt::format("Report: {}", report);
  const std::string notes = notes_html(comparison);
  const std::string part =
      fmt::format("<p class=\"output-kind\"><b>{}</b> · Cogwheel comparison</p>\n<p class=\"verdict\">{}</p>\n{}{}{}{}",
                  pages::escape_html(title), verdict_html(comparison), table_html(comparison),
                  notes.empty() ? "" : fmt::format("<div class=\"notes\">\n{}</div>\n", notes), curves_html(comparison),
                  where.empty() ? "" : fmt::format("<p class=\"where\">{}</p>\n", pages::escape_html(where)));
  return {.html = pages::notebook_html(part),
          .text = fmt::format("{}\n\n{}{}", pages::with_powers(verdict(comparison)),
                              pages::table_text(table(comparison)), where.empty() ? "" : "\n" + where + "\n")};
}

}  // namespace cogwheel::compare
