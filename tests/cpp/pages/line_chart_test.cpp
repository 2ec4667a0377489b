#include "cogwheel/pages/line_chart.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "cogwheel/pages/matrix_map.h"

namespace cogwheel::pages {
namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

LineChart chart() {
  return {.title = "a <b>",
          .x = {.title = "x & y"},
          .y = {.title = "y"},
          .series = {{.name = "one <i>", .x = {0, 1, 2}, .y = {0, 5, 10}, .error = {1, 0, 1}},
                     {.name = "two", .x = {0, 2}, .y = {1, 2}, .points = false, .expected = true}}};
}

TEST(LineChart, EscapesTextAndNeedsNoScript) {
  const Figure figure = line_chart_figure(chart());
  EXPECT_EQ(occurrences(figure.html, "<i>") + occurrences(figure.html, "<b>") + occurrences(figure.html, "<script"), 0);
  EXPECT_EQ(occurrences(figure.html, "x &amp; y"), 2);
  EXPECT_EQ(occurrences(figure.html, "<polyline"), 2);
  EXPECT_EQ(occurrences(figure.html, "class=\"bar\""), 2);
}

TEST(LineChart, AMissingPointInterruptsTheLine) {
  LineChart broken = chart();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  broken.series = {{.name = "", .x = {0, 1, 2, 3, 4}, .y = {1, 2, nan, 3, 4}}};
  const std::string html = line_chart_figure(broken).html;
  EXPECT_EQ(occurrences(html, "<polyline"), 2);
  EXPECT_EQ(occurrences(html, "nan"), 0);
}

TEST(LineChart, LogarithmicAxesLeaveOutWhatTheyCannotShow) {
  LineChart logarithmic = chart();
  logarithmic.x.logarithmic = logarithmic.y.logarithmic = true;
  logarithmic.series = {{.name = "", .x = {0, 1, 10, 100}, .y = {1, 0, 1e-8, 1e-2}, .error = {0, 0, 1, 0}}};
  const std::string html = line_chart_figure(logarithmic).html;
  EXPECT_EQ(occurrences(html, "inf") + occurrences(html, "nan"), 0);
  EXPECT_NE(html.find(">100<"), std::string::npos);
  EXPECT_NE(html.find("10⁻⁸"), std::string::npos);
}

TEST(LineChart, ShowsEveryPointWithinTheBox) {
  const std::string html = line_chart_figure(chart()).html;
  const std::regex percent("=\"(-?[0-9.]+)%\"");
  for (std::sregex_iterator match(html.begin(), html.end(), percent), end; match != end; ++match) {
    EXPECT_GE(std::stod((*match)[1]), 0) << match->str();
    EXPECT_LE(std::stod((*match)[1]), 100) << match->str();
  }
}

TEST(LineChart, OfNothingIsAnEmptyBox) {
  for (const bool logarithmic : {false, true}) {
    LineChart empty = chart();
    empty.series.clear();
    empty.x.logarithmic = empty.y.logarithmic = logarithmic;
    EXPECT_EQ(occurrences(line_chart_figure(empty).html, "nan"), 0);
    empty.series = {{.name = "", .x = {5}, .y = {7}}};  // one point: no width of its own
    EXPECT_EQ(occurrences(line_chart_figure(empty).html, "nan"), 0);
  }
}

TEST(LineChart, RefusesUnequalCoordinates) {
  LineChart unequal = chart();
  unequal.series[0].y.pop_back();
  EXPECT_THROW(line_chart_figure(unequal), std::logic_error);
}

TEST(MatrixMap, LeavesZerosEmptyAndDarkensWithTheLogarithm) {
  const MatrixMap map{.title = "<",
                      .row_title = "u",
                      .column_title = "k",
                      .rows = 2,
                      .columns = 2,
                      .values = {1, 0, 1e-3, 1e-9},
                      .decades = 6};
  const std::string html = matrix_map_figure(map).html;
  EXPECT_EQ(occurrences(html, "<rect"), 3);
  EXPECT_NE(html.find("x=\"0\" y=\"0\" width=\"1\" height=\"1\" fill-opacity=\"1.000\""), std::string::npos);
  EXPECT_NE(html.find("x=\"0\" y=\"1\" width=\"1\" height=\"1\" fill-opacity=\"0.530\""), std::string::npos);
  EXPECT_NE(html.find("x=\"1\" y=\"1\" width=\"1\" height=\"1\" fill-opacity=\"0.060\""), std::string::npos);
  MatrixMap wrong = map;
  wrong.rows = 3;
  EXPECT_THROW(matrix_map_figure(wrong), std::logic_error);
}

}  // namespace
}  // namespace cogwheel::pages
