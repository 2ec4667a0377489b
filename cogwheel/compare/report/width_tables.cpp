#include <fmt/format.h>

#include <cmath>

#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/record/width_series.h"
#include "cogwheel/compare/report/page.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/compare/statistics/seed_bootstrap.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/line_chart.h"

namespace cogwheel::compare {
namespace {

constexpr int points_of_a_law = 40;

// Of few digits, powers of ten where it is large or small.
std::string digits_text(double value) {
  return std::abs(value) < 100 ? pages::fixed(value, 3) : pages::with_powers(fmt::format("{:.3g}", value));
}

std::string number_html(const FittedNumber& number) {
  std::string html = fmt::format("<span class=\"num\">{}</span>", pages::escape_html(digits_text(number.value)));
  if (number.low)
    html += fmt::format("<small>{} to {}</small>", pages::escape_html(digits_text(*number.low)),
                        pages::escape_html(digits_text(*number.high)));
  return html;
}

std::string number_with_interval(const FittedNumber& number) {
  return digits_text(number.value) +
         (number.low ? fmt::format(" ({} to {})", digits_text(*number.low), digits_text(*number.high)) : "");
}

std::string row_head(const Comparison& comparison, const WidthSeries& series) {
  return fmt::format("        <tr style=\"--series:var({})\"><th scope=\"row\" class=\"series\">{}</th>",
                     series_property(comparison, series.points.front().row), pages::escape_html(series.title));
}

std::string gap_html(const Comparison& comparison, const WidthSeries& series) {
  if (series.name == comparison.baseline_family()) return "the baseline";
  if (!series.gap) return "not known";
  const Gap& gap = *series.gap;
  std::string html =
      fmt::format("<b>{}</b><small>{}{} a doubling{}</small>", gap_name(gap.change),
                  pages::signed_fixed(gap.per_doubling, 4), gap.interval ? " ± " + pages::fixed(*gap.interval, 4) : "",
                  gap.p_adjusted ? fmt::format(", p = {:.2g}", *gap.p_adjusted) : ", no interval");
  return html;
}

pages::LineChart chart_of_sizes(const Comparison& comparison, const std::vector<WidthSeries>& all) {
  const runs::Measure& measure = comparison.task.decisive();
  pages::LineChart chart{
      .title = pages::capitalised(measure.title) + " over size",
      .x = {.title = "parameters without embeddings", .logarithmic = true},
      .y = {.title = measure.unit.empty() ? measure.title : measure.title + ", " + measure.unit},
      .series = {},
      .caption = "Points: means of the seeds that finished, with 95 % intervals. Lines: E + A / N^α."};
  for (const WidthSeries& series : all) {
    const std::string property = series_property(comparison, series.points.front().row);
    pages::ChartSeries points{.name = series.title, .x = {}, .y = {}, .line = !series.law, .property = property};
    for (const WidthPoint& point : series.points) {
      if (!point.mean) continue;
      points.x.push_back(static_cast<double>(point.size));
      points.y.push_back(*point.mean);
      points.error.push_back(comparison.row(point.row)->interval.value_or(0));
    }
    if (points.x.empty()) continue;
    chart.series.push_back(std::move(points));
    if (!series.law) continue;
    pages::ChartSeries line{.name = "", .x = {}, .y = {}, .points = false, .property = property};
    const double first = std::log(static_cast<double>(series.points.front().size)),
                 last = std::log(static_cast<double>(series.points.back().size));
    for (int place = 0; place <= points_of_a_law; ++place) {
      const double size = std::exp(first + (last - first) * place / points_of_a_law);
      line.x.push_back(size);
      line.y.push_back(series.law->law().at(size));
    }
    chart.series.push_back(std::move(line));
  }
  return chart;
}

std::string gap_text(const Comparison& comparison, const WidthSeries& series) {
  if (series.name == comparison.baseline_family()) return "the baseline";
  if (!series.gap) return "not known";
  const Gap& gap = *series.gap;
  return fmt::format("{}: {}{} a doubling{}", gap_name(gap.change), pages::signed_fixed(gap.per_doubling, 4),
                     gap.interval ? " ± " + pages::fixed(*gap.interval, 4) : "",
                     gap.p_adjusted ? fmt::format(", p = {:.2g}", *gap.p_adjusted) : "");
}

std::string head(const std::string& text) { return "<th scope=\"col\">" + pages::escape_html(text) + "</th>"; }

std::string laws_html(const Comparison& comparison, const std::vector<WidthSeries>& all) {
  std::string heads = head("") + head("E") + head("A") + head("α") + head("seeds") +
                      head("its gap to " + baseline_in_sentence(comparison)),
              rows, why;
  for (const WidthSeries& series : all) {
    rows += row_head(comparison, series);
    if (series.law) {
      rows += fmt::format("<td>{}</td><td>{}</td><td>{}</td>", number_html(series.law->limit),
                          number_html(series.law->factor), number_html(series.law->exponent));
    } else {
      rows += "<td>–</td><td>–</td><td>–</td>";
      why = " No law is fitted: " + series.why_no_law + ".";
    }
    rows += fmt::format("<td>{}</td><td>{}</td></tr>\n", series.seeds, gap_html(comparison, series));
  }
  const std::string lead = fmt::format(
      "{} as E + A / N^α, N the parameters without embeddings and head.{} Below each number its 95 % interval, by a "
      "bootstrap over seeds ({} draws, seed {}). α is tried from {} to {}: where its interval reaches an end, these "
      "points "
      "do not tell how the curve bends. A gap is a line over log N of the paired differences at the same width; its "
      "interval has Holm’s correction.",
      pages::capitalised(comparison.task.decisive().title), why, bootstrap_draws, bootstrap_seed, smallest_exponent,
      largest_exponent);
  return pages::fill_template(pages::embedded::task_table_html,
                              {{"index", "sizes"},
                               {"title", "What size does"},
                               {"lead", pages::escape_html(lead)},
                               {"chart", pages::figure_html(pages::line_chart_figure(chart_of_sizes(comparison, all)))},
                               {"heads", heads},
                               {"rows", rows}});
}

// Whether the best rate of the narrowest model is the best of the wider ones.
std::string rates_html(const Comparison& comparison, const std::vector<WidthSeries>& all) {
  if (comparison.tuning.empty()) return "";
  std::string heads = head(""), rows;
  for (const std::int64_t width : comparison.settings.widths) heads += head("width " + std::to_string(width));
  for (const WidthSeries& series : all) {
    rows += row_head(comparison, series);
    for (const WidthPoint& point : series.points) {
      const bool first = &point == &series.points.front();
      const std::string costs = first                     ? ""
                                : !point.first_rate_costs ? "that of the first was not tried"
                                : *point.first_rate_costs == 0
                                    ? "that of the first"
                                    : "that of the first: " + pages::signed_fixed(*point.first_rate_costs, 4);
      rows += fmt::format("<td><span class=\"num\">{}</span><small>{}</small></td>",
                          pages::learning_rate_text(point.learning_rate), pages::escape_html(costs));
    }
    rows += "</tr>\n";
  }
  const std::int64_t base = comparison.configuration.training.base_width;
  const std::string lead =
      fmt::format("The best of {} rates at each width, and what the best one of width {} costs there in {}. {}",
                  comparison.settings.tune, comparison.settings.widths.front(), comparison.task.decisive().title,
                  base == 0 ? fmt::format("--set training.base_width={} makes rates those of width {}, for all widths.",
                                          comparison.settings.widths.front(), comparison.settings.widths.front())
                            : fmt::format("Rates are those of width {} (training.base_width).", base));
  return pages::fill_template(pages::embedded::task_table_html, {{"index", "rates"},
                                                                 {"title", "The best learning rate of each width"},
                                                                 {"lead", pages::escape_html(lead)},
                                                                 {"chart", ""},
                                                                 {"heads", heads},
                                                                 {"rows", rows}});
}

}  // namespace

pages::DocumentSection widths_section(const Comparison& comparison) {
  const std::vector<WidthSeries> all = width_series(comparison);
  pages::DocumentSection section{
      .title = "What size does",
      .lead = pages::capitalised(comparison.task.decisive().title) +
              " as E + A / N^α, N the parameters without embeddings and head, with 95 % intervals by a bootstrap over "
              "seeds; and the gap to the baseline at the same width, a doubling of N.",
      .figures = {pages::line_chart_figure(chart_of_sizes(comparison, all))}};
  pages::TextTable table{
      .title = "", .columns = {"row", "E", "A", "α", "seeds", "its gap to the baseline"}, .rows = {}};
  for (const WidthSeries& series : all) {
    std::vector<std::string> cells{series.title};
    for (const auto number : {&FittedLaw::limit, &FittedLaw::factor, &FittedLaw::exponent})
      cells.push_back(series.law ? number_with_interval((*series.law).*number) : "–");
    cells.push_back(std::to_string(series.seeds));
    cells.push_back(gap_text(comparison, series));
    table.rows.push_back(std::move(cells));
    if (!series.law) section.remarks = {{"No law is fitted:", series.why_no_law + "."}};
  }
  section.tables = {std::move(table)};
  return section;
}

std::string widths_html(const Comparison& comparison) {
  if (comparison.settings.widths.empty()) return "";
  const std::vector<WidthSeries> all = width_series(comparison);
  return laws_html(comparison, all) + rates_html(comparison, all);
}

}  // namespace cogwheel::compare
