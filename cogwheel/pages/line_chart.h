// A chart of lines and points as SVG without script. Positions are shares of the width and sizes of text are pixels, so
// that it is as legible at 375 px as at 1440; colours are custom properties of report.css.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/pages/exhibits.h"

namespace cogwheel::pages {

struct ChartAxis {
  std::string title;
  bool logarithmic = false;                  // then what is not above 0 is left out
  std::optional<double> min = {}, max = {};  // by default what is drawn decides
};

struct ChartSeries {
  std::string name;
  std::vector<double> x, y;        // as many of one as of the other; a point that is not finite interrupts a line
  std::vector<double> error = {};  // half the length of each point's bar; or none
  bool line = true, points = true;
  bool expected = false;      // what a formula says: dashed, in ink
  std::string property = {};  // its colour, a custom property of report.css; empty: one of its own
};

// A value that the eye should compare with: a line across the chart.
struct ChartMark {
  enum class Axis { x, y };
  Axis axis;
  double value;
  std::string text;
};

struct LineChart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks = {};
  std::string caption = {};
};

// Throws std::logic_error where a series has more of one coordinate than of the other.
Figure line_chart_figure(const LineChart& chart);

}  // namespace cogwheel::pages
