#include "cogwheel/runs/shown_figure.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/inspection_json.h"
#include "cogwheel/tasks/handwriting/stroke_picture.h"
#include "cogwheel/tasks/handwriting/window_picture.h"
#include "cogwheel/tasks/images/picture_grid.h"
#include "cogwheel/tasks/translation/alignment_figure.h"
#include "support/count_of.h"

namespace cogwheel::runs {
namespace {

using Json = nlohmann::ordered_json;

const std::string attack = "</svg></script><img src=x onerror=alert(1)>\"'";
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

std::vector<ShownFigure> shown_examples() {
  const std::vector<tasks::handwriting::StrokePoint> points{{0, 0, false}, {1.5F, -0.25F, true}};
  return {
      {attack,
       tasks::images::PictureGrid{{{{.height = 1, .width = 2, .pixels = {0, 50, 255, 9, 8, 7}}, attack}}, 3, attack}},
      {attack, tasks::translation::AlignmentFigure{.caption = attack,
                                                   .source = {attack, "b"},
                                                   .target = {"c"},
                                                   .panels = {{attack, {0.5F, no_number}, {{1, 0, false}}, 0.125},
                                                              {"", {-1, 0}, {}, {}}}}},
      {attack, tasks::handwriting::WrittenStrokes{points}},
      {attack, tasks::handwriting::WindowOverTime{points, "<é", {0.5F, 0, 0.5F, 0.25F, 0, no_number}, attack}}};
}

Inspection with(std::vector<ShownFigure> figures) {
  Inspection inspection{.mechanism = "cog"};
  inspection.figures = std::move(figures);
  return inspection;
}

TEST(ShownFigure, IsDrawnTheSameAfterItWasKept) {
  const Inspection read = parse_inspection(inspection_to_json(with(shown_examples())));
  ASSERT_EQ(read.figures.size(), 4U);
  for (std::size_t at = 0; at < read.figures.size(); ++at) {
    const pages::Figure before = drawn_figure(shown_examples()[at]), after = drawn_figure(read.figures[at]);
    EXPECT_EQ(before.html, after.html) << at;
    EXPECT_EQ(before.title + before.caption, after.title + after.caption) << at;
    EXPECT_EQ(count_of(after.html, "onerror=alert(1)>"), 0U) << after.html;  // escaped: "…alert(1)&gt;"
    EXPECT_EQ(count_of(after.html, "</script>"), 0U) << after.html;
  }
}

// A run's folder may come from anyone.
TEST(ShownFigure, MarkupOfAFileIsNeverShown) {
  Json figure = figure_to_json(shown_examples()[2]);
  const std::string shown = drawn_figure(figure_from_json(figure, "file")).html;
  figure["html"] = attack;
  EXPECT_EQ(drawn_figure(figure_from_json(figure, "file")).html, shown);
  Json json = Json::parse(inspection_to_json(with({})));
  json["figures"] = {{{"title", "a"}, {"html", attack}, {"caption", ""}}};
  EXPECT_THROW(parse_inspection(json.dump()), Error);
}

TEST(ShownFigure, WhatDoesNotFitIsRefused) {
  const auto said_of = [](std::size_t which, auto&& damage) {
    Json json = figure_to_json(shown_examples()[which]);
    damage(json);
    try {
      Json whole = Json::parse(inspection_to_json(with({})));
      whole["figures"] = {json};
      parse_inspection(whole.dump(), "file");
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said_of(2, [](Json& json) { json["kind"] = "html"; }),
            "file: expected a figure that is one of pictures, alignment, strokes, window, got html");
  EXPECT_EQ(said_of(0, [](Json& json) { json["columns"] = 0; }), "file: expected 1 to 64 columns, got 0");
  EXPECT_EQ(said_of(0, [](Json& json) { json["pictures"][0]["png"] = attack; }),
            "file: expected a picture in base64, got other characters");
  EXPECT_TRUE(said_of(0, [](Json& json) { json["pictures"][0]["png"] = "PHN2Zz4="; }).starts_with("file: expected "));
  EXPECT_EQ(said_of(1, [](Json& json) { json["panels"][0]["weights"].push_back(1); }),
            "file: expected 2 weights of an alignment, got 3");
  EXPECT_EQ(said_of(3, [](Json& json) { json["text"] = "abc"; }), "file: expected 8 weights of a window, got 6");
  for (const char* missing : {"columns", "pictures", "title", "kind"})
    EXPECT_TRUE(said_of(0, [&](Json& json) { json.erase(missing); }).starts_with("file: expected ")) << missing;
  EXPECT_TRUE(said_of(2, [](Json& json) { json["points"] = {{1, "x", true}}; }).starts_with("file: expected "));
}

}  // namespace
}  // namespace cogwheel::runs
