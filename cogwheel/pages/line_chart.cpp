#include "cogwheel/pages/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::pages {
namespace {

struct Tick {
  double share;  // of the axis
  std::string text;
};

// Where values lie on an axis: 0 at its beginning, 1 at its end.
class AxisScale {
 public:
  AxisScale(const ChartAxis& axis, const std::vector<double>& values) : logarithmic_(axis.logarithmic) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const double value : values)
      if (has(value)) low = std::min(low, of(value)), high = std::max(high, of(value));
    if (low > high) low = 0, high = 1;
    if (low == high) low -= 0.5, high += 0.5;
    const double room = 0.04 * (high - low);
    // Zero belongs to an axis that comes near it.
    const bool from_zero = !logarithmic_ && low >= 0 && low < 0.35 * high;
    first_ = from_zero ? 0 : low - room, last_ = high + room;
    if (axis.min && has(*axis.min)) first_ = of(*axis.min);
    if (axis.max && has(*axis.max)) last_ = of(*axis.max);
    if (first_ >= last_) last_ = first_ + 1;
  }

  bool has(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }
  double share(double value) const { return (of(value) - first_) / (last_ - first_); }
  bool shows(double value) const { return has(value) && share(value) >= -1e-9 && share(value) <= 1 + 1e-9; }

  std::vector<Tick> ticks(int most) const { return logarithmic_ ? powers(most) : steps(most); }

 private:
  double of(double value) const { return logarithmic_ ? std::log10(value) : value; }

  std::vector<Tick> steps(int most) const {
    const double least = (last_ - first_) / most, decade = std::pow(10, std::floor(std::log10(least)));
    double step = 10 * decade;
    for (const double factor : {5., 2., 1.})
      if (factor * decade >= least * (1 - 1e-9)) step = factor * decade;
    const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
    std::vector<Tick> ticks;
    for (double index = std::ceil(first_ / step - 1e-9); index * step <= last_ + 1e-9 * step; ++index) {
      const double value = index * step;
      ticks.push_back({share(value), digits > 0 && std::abs(value) < 1e4 ? fixed(value, digits) : whole(value)});
    }
    return ticks;
  }

  std::vector<Tick> powers(int most) const {
    const double decades = last_ - first_;
    std::vector<double> factors{1};
    if (decades < 1.7) factors = {1, 2, 5};
    const int every = std::max(1, static_cast<int>(std::ceil(decades / most)));
    std::vector<Tick> ticks;
    for (int exponent = static_cast<int>(std::floor(first_)); exponent <= last_; ++exponent)
      for (const double factor : factors) {
        const double place = exponent + std::log10(factor);
        if (place < first_ - 1e-9 || place > last_ + 1e-9 || exponent % every != 0) continue;
        ticks.push_back({(place - first_) / (last_ - first_), power_text(factor, exponent)});
      }
    return ticks;
  }

  static std::string whole(double value) {
    const std::string digits = grouped(std::llround(std::abs(value)));
    return value < 0 && std::llround(value) != 0 ? "−" + digits : digits;
  }

  static std::string power_text(double factor, int exponent) {
    if (exponent >= 0 && exponent <= 5) return whole(factor * std::pow(10, exponent));
    if (exponent < 0 && exponent >= -3) return fixed(factor * std::pow(10, exponent), -exponent);
    return (factor == 1 ? "" : fixed(factor, 0) + "·") + power_of_ten(exponent);
  }

  bool logarithmic_;
  double first_ = 0, last_ = 1;  // of the logarithm, on a logarithmic axis
};

std::string percent(double share) { return fmt::format("{:.3f}%", 100 * share); }

struct Scales {
  AxisScale x, y;

  bool shows(double at_x, double at_y) const { return x.shows(at_x) && y.has(at_y); }
  std::string left(double value) const { return percent(x.share(value)); }
  std::string top(double value) const { return percent(1 - y.share(value)); }
};

std::string colour(const LineChart& chart, std::size_t index) {
  if (chart.series[index].expected) return "var(--series-0)";
  if (!chart.series[index].property.empty()) return fmt::format("var({})", chart.series[index].property);
  std::size_t number = 0;
  for (std::size_t before = 0; before < index; ++before) number += chart.series[before].expected ? 0 : 1;
  return fmt::format("var(--series-{})", 1 + number % 7);
}

// A shape for each series beside its colour. Centred on 0, 0.
std::string marker(const LineChart& chart, std::size_t index) {
  std::size_t number = 0;
  for (std::size_t before = 0; before < index; ++before) number += chart.series[before].expected ? 0 : 1;
  static const char* const shapes[] = {"M0-4.2A4.2 4.2 0 1 1 0 4.2A4.2 4.2 0 1 1 0-4.2Z",
                                       "M-3.8-3.8H3.8V3.8H-3.8Z",
                                       "M0-5 4.8 3.8H-4.8Z",
                                       "M0-5.2 5.2 0 0 5.2-5.2 0Z",
                                       "M0 5-4.8-3.8H4.8Z",
                                       "M-4.4-1.6H-1.6V-4.4H1.6V-1.6H4.4V1.6H1.6V4.4H-1.6V1.6H-4.4Z",
                                       "M-5-2H5V2H-5Z"};
  return fmt::format("<path d=\"{}\"/>", shapes[number % 7]);
}

std::string grid_svg(const Scales& scales) {
  std::string svg;
  for (const Tick& tick : scales.y.ticks(5))
    svg += fmt::format(
        "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/><text class=\"end\" x=\"-8\" y=\"{0}\" "
        "dy=\".35em\">{1}</text>\n",
        percent(1 - tick.share), tick.text);
  for (const Tick& tick : scales.x.ticks(5))
    svg += fmt::format(
        "<line class=\"grid\" y1=\"0\" y2=\"100%\" x1=\"{0}\" x2=\"{0}\"/><text class=\"middle\" x=\"{0}\" y=\"100%\" "
        "dy=\"1.5em\">{1}</text>\n",
        percent(tick.share), tick.text);
  return svg;
}

// Lines are drawn in a square of 1000 that is stretched to the chart; the width of their strokes is not.
std::string line_svg(const ChartSeries& series, const Scales& scales) {
  std::string svg, points;
  bool beyond = false;  // an axis that was given ends before the line does
  int count = 0;
  const auto finish = [&] {
    if (count > 1) svg += fmt::format("<polyline points=\"{}\"/>", points);
    points.clear(), count = 0;
  };
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!scales.shows(series.x[i], series.y[i])) {
      finish();
      continue;
    }
    beyond = beyond || !scales.y.shows(series.y[i]);
    points += fmt::format("{}{:.2f},{:.2f}", count++ > 0 ? " " : "", 1000 * scales.x.share(series.x[i]),
                          1000 * (1 - scales.y.share(series.y[i])));
  }
  finish();
  return svg.empty() ? ""
                     : fmt::format(
                           "<svg{} width=\"100%\" height=\"100%\" viewBox=\"0 0 1000 1000\" "
                           "preserveAspectRatio=\"none\">{}</svg>\n",
                           beyond ? " class=\"cut\"" : "", svg);
}

std::string points_svg(const ChartSeries& series, const Scales& scales, const std::string& shape) {
  std::string svg;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!scales.shows(series.x[i], series.y[i]) || !scales.y.shows(series.y[i])) continue;
    const std::string x = scales.left(series.x[i]);
    if (i < series.error.size() && series.error[i] > 0) {
      const double high = series.y[i] + series.error[i], low = series.y[i] - series.error[i];
      svg += fmt::format("<line class=\"bar\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>", x,
                         scales.y.has(high) ? scales.top(high) : "0", scales.y.has(low) ? scales.top(low) : "100%");
    }
    if (series.points) svg += fmt::format("<svg x=\"{}\" y=\"{}\">{}</svg>\n", x, scales.top(series.y[i]), shape);
  }
  return svg;
}

std::string mark_svg(const ChartMark& mark, const Scales& scales) {
  const bool on_x = mark.axis == ChartMark::Axis::x;
  if (!(on_x ? scales.x : scales.y).shows(mark.value)) return "";
  const std::string text = escape_html(mark.text);
  if (on_x) {
    // On the side that has room.
    const bool left = scales.x.share(mark.value) > 0.6;
    return fmt::format(
        "<line class=\"mark\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"100%\"/><text class=\"{1}\" x=\"{0}\" y=\"0\" "
        "dx=\"{2}\" dy=\"1.1em\">{3}</text>\n",
        scales.left(mark.value), left ? "mark end" : "mark", left ? -6 : 6, text);
  }
  return fmt::format(
      "<line class=\"mark\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/><text class=\"mark end\" x=\"100%\" y=\"{0}\" "
      "dx=\"-4\" dy=\"-.4em\">{1}</text>\n",
      scales.top(mark.value), text);
}

std::string key_html(const LineChart& chart) {
  std::string items;
  for (std::size_t index = 0; index < chart.series.size(); ++index) {
    const ChartSeries& series = chart.series[index];
    if (series.name.empty()) continue;
    items += fmt::format(
        "<li style=\"--series: {}\"><svg width=\"26\" height=\"12\" aria-hidden=\"true\">{}{}</svg>{}</li>",
        colour(chart, index),
        series.line ? fmt::format("<line class=\"{}\" x1=\"0\" x2=\"26\" y1=\"6\" y2=\"6\"/>",
                                  series.expected ? "line expected" : "line")
                    : "",
        series.points ? "<svg x=\"13\" y=\"6\">" + marker(chart, index) + "</svg>" : "", escape_html(series.name));
  }
  return items.empty() ? "" : "<ul class=\"chart-key\">" + items + "</ul>\n";
}

}  // namespace

Figure line_chart_figure(const LineChart& chart) {
  std::vector<double> all_x, all_y;
  for (const ChartSeries& series : chart.series) {
    if (series.x.size() != series.y.size())
      throw std::logic_error(expected_got("chart: " + series.name, std::to_string(series.x.size()) + " points",
                                          std::to_string(series.y.size())));
    all_x.insert(all_x.end(), series.x.begin(), series.x.end());
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      const double error = i < series.error.size() ? series.error[i] : 0;
      for (const double y : {series.y[i] - error, series.y[i], series.y[i] + error}) all_y.push_back(y);
    }
  }
  const Scales scales{AxisScale(chart.x, all_x), AxisScale(chart.y, all_y)};
  std::string drawn;
  for (const ChartMark& mark : chart.marks) drawn += mark_svg(mark, scales);
  for (std::size_t index = 0; index < chart.series.size(); ++index) {
    const ChartSeries& series = chart.series[index];
    drawn += fmt::format("<g class=\"{}\" style=\"--series: {}\">\n{}{}</g>\n",
                         series.expected ? "series expected" : "series", colour(chart, index),
                         series.line ? line_svg(series, scales) : "", points_svg(series, scales, marker(chart, index)));
  }
  return {.title = chart.title,
          .html = fmt::format(
              "{}<div class=\"chart\"><svg role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"0\" y=\"0\" "
              "dy=\"-.8em\">{}</text>\n{}{}<text class=\"title end\" x=\"100%\" y=\"100%\" "
              "dy=\"3.1em\">{}</text>\n</svg></div>",
              key_html(chart), escape_html(fmt::format("{}: {} over {}", chart.title, chart.y.title, chart.x.title)),
              chart.y.title == chart.title ? "" : escape_html(chart.y.title), grid_svg(scales), drawn,
              escape_html(chart.x.title)),
          .caption = chart.caption};
}

}  // namespace cogwheel::pages
