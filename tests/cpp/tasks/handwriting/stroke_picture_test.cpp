#include "cogwheel/tasks/handwriting/stroke_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <pugixml.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/handwriting/window_picture.h"
#include "support/count_of.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr float infinite_offset = std::numeric_limits<float>::infinity();
const std::vector<StrokePoint> corner{{0, 0, false}, {10, 0, false}, {0, 5, true}, {20, -5, true}};

pugi::xml_document parsed(const std::string& svg) {
  pugi::xml_document document;
  const auto result = document.load_string(svg.c_str());
  EXPECT_TRUE(result) << result.description() << " at " << result.offset << ":\n" << svg;
  return document;
}

std::vector<std::string> paths(const std::string& svg) {
  const pugi::xml_document document = parsed(svg);
  std::vector<std::string> all;
  for (const auto& found : document.select_nodes("//path[@d]")) all.emplace_back(found.node().attribute("d").value());
  return all;
}

TEST(StrokePicture, IsAsLargeAsTheDrawing) {
  const std::string svg = stroke_svg(corner);
  // 30 wide and 5 high, as 576 by 96 with a margin of 12.
  EXPECT_EQ(paths(svg), (std::vector<std::string>{"M12.0 12.0L204.0 12.0 204.0 108.0", "M588.0 12.0h0"}));
  const pugi::xml_document document = parsed(svg);
  EXPECT_STREQ(document.child("svg").attribute("viewBox").value(), "0 0 600 120");
  EXPECT_EQ(svg.find("animation"), std::string::npos);
  EXPECT_EQ(svg.find("http", svg.find("http") + 1), std::string::npos);  // nothing but the namespace
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  std::vector<StrokePoint> tall{{0, 0, false}, {0, 7, true}};
  EXPECT_EQ(paths(stroke_svg(tall)), std::vector<std::string>{"M12.0 12.0L12.0 252.0"});
  std::vector<StrokePoint> flat{{0, 0, false}, {1e6F, 0, true}};
  EXPECT_EQ(paths(stroke_svg(flat)), std::vector<std::string>{"M12.0 12.0L1988.0 12.0"});
}

TEST(StrokePicture, IsDrawnAsThePenGoes) {
  const std::string svg = stroke_svg(corner, {.animated = true, .points_per_second = 10, .title = "a"});
  const pugi::xml_document document = parsed(svg);
  std::vector<std::string> styles;
  for (const auto& found : document.select_nodes("//path"))
    styles.emplace_back(found.node().attribute("style").value());
  // Three points, a move that takes as long as two, and a point.
  EXPECT_EQ(styles,
            (std::vector<std::string>{"--cw-start:0.000s;--cw-time:0.300s", "--cw-start:0.500s;--cw-time:0.100s"}));
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("prefers-reduced-motion:no-preference"), std::string::npos);
  EXPECT_NO_THROW(stroke_svg(corner, {.animated = true, .points_per_second = 0}));
}

TEST(StrokePicture, IsSafeOnAnything) {
  EXPECT_TRUE(paths(stroke_svg({})).empty());
  EXPECT_NE(stroke_svg({}).find("Handwriting (no strokes)"), std::string::npos);
  EXPECT_EQ(paths(stroke_svg(std::vector<StrokePoint>{{0, 0, false}})).size(), 1u);
  std::vector<StrokePoint> broken = corner;
  broken[2].dx = infinite_offset;
  EXPECT_EQ(paths(stroke_svg(broken)).size(), 1u);
  broken[1].dy = std::nanf("");
  for (const bool animated : {false, true}) {
    const std::string svg = stroke_svg(broken, {.animated = animated, .title = "<a> & \"b\" \x01 \xff é"});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_STREQ(parsed(svg).child("svg").child("title").child_value(), "<a> & \"b\" \uFFFD \uFFFD é");
  }
}

TEST(WindowPicture, ShowsEachWeight) {
  const std::string text = "a <é";
  // From each character to the next with each point; the last attends to the end.
  std::vector<float> window(4 * 5, 0);
  window[0] = 0.5F, window[5 + 1] = 0.5F, window[5 + 2] = 0.125F, window[10 + 2] = 0.5F, window[15 + 4] = 0.5F;
  const std::string svg = window_svg(corner, text, window);
  const pugi::xml_document document = parsed(svg);
  std::vector<std::string> cells;
  for (const auto& found : document.select_nodes("//g[@shape-rendering]/path"))
    cells.push_back(std::string(found.node().attribute("fill-opacity").value()) + " " +
                    found.node().attribute("class").value() + " " + found.node().attribute("d").value());
  // The square root of a quarter of the largest is half of it.
  EXPECT_EQ(cells, (std::vector<std::string>{"0.5 cw-even cw-fill M1 2h1v1H1z",
                                             "1 cw-even cw-fill M0 0h1v1H0zM2 2h1v1H2zM3 4h1v1H3z",
                                             "1 cw-odd cw-fill M1 1h1v1H1z"}));
  std::string labels;
  for (const auto& found : document.select_nodes("//text[@font-size]"))
    labels += found.node().child_value() + std::string("|");
  EXPECT_EQ(labels, "a|\u2423|<|é|end|");
  EXPECT_NE(svg.find("full at 0.50"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<path class=\"cw-pen\""), 1u);
  const std::string figure = window_html(corner, text, window, "<caption>");
  EXPECT_NE(figure.find("<small>&lt;caption&gt; Above"), std::string::npos);
  EXPECT_NE(figure.find("cw-picture"), std::string::npos);
}

TEST(WindowPicture, IsSafeOnAnything) {
  EXPECT_EQ(paths(window_svg({}, "", {})).size(), 0u);
  EXPECT_EQ(paths(window_svg({}, "abc", {})).size(), 0u);
  EXPECT_NO_THROW(parsed(window_svg(corner, "", std::vector<float>(4, 0))));
  std::vector<float> window(4 * 3, std::nanf(""));
  window[1] = -1, window[2] = infinite_offset;
  const std::string svg = window_svg(corner, "\x01\xff", window);
  parsed(svg);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  try {
    window_svg(corner, "abc", window);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "window: expected 4 points × 4 weights, got 12");
  }
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
