#include "cogwheel/report/shown_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cogwheel/core/base64.h"
#include "cogwheel/core/error.h"
#include "cogwheel/data/image_files.h"
#include "cogwheel/data/utf8.h"
#include "cogwheel/report/alignment_figure.h"
#include "cogwheel/report/picture_grid.h"
#include "cogwheel/report/stroke_picture.h"
#include "cogwheel/report/window_picture.h"

namespace cogwheel {
namespace {

using Json = nlohmann::ordered_json;

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

constexpr const char *pictures_kind = "pictures", *alignment_kind = "alignment", *strokes_kind = "strokes",
                     *window_kind = "window";
constexpr int most_columns = 64;

// Numbers that are not finite are null.
Json numbers_json(const std::vector<float>& numbers) {
  Json json = Json::array();
  for (const float number : numbers) json.push_back(std::isfinite(number) ? Json(number) : Json());
  return json;
}

std::vector<float> numbers_from(const Json& json) {
  std::vector<float> numbers;
  for (const Json& each : json)
    numbers.push_back(each.is_null() ? std::numeric_limits<float>::quiet_NaN() : each.get<float>());
  return numbers;
}

Json points_json(const std::vector<StrokePoint>& points) {
  Json json = Json::array();
  for (const StrokePoint& point : points) {
    json.push_back(numbers_json({point.dx, point.dy}));
    json.back().push_back(point.ends);
  }
  return json;
}

std::vector<StrokePoint> points_from(const Json& json) {
  std::vector<StrokePoint> points;
  for (const Json& each : json) {
    const std::vector<float> offset = numbers_from({each.at(0), each.at(1)});
    points.push_back({.dx = offset[0], .dy = offset[1], .ends = each.at(2).get<bool>()});
  }
  return points;
}

void expect_count(std::string_view what, std::string_view of, std::size_t expected, std::size_t got) {
  if (expected != got)
    throw Error(expected_got(what, std::to_string(expected) + " " + std::string(of), std::to_string(got)));
}

PictureGrid pictures_from(const Json& json, std::string_view what) {
  PictureGrid grid{.pictures = {}, .columns = json.at("columns"), .caption = json.at("caption")};
  if (grid.columns < 1 || grid.columns > most_columns)
    throw Error(expected_got(what, "1 to " + std::to_string(most_columns) + " columns", std::to_string(grid.columns)));
  for (const Json& each : json.at("pictures")) {
    const auto png = from_base64(each.at("png").get<std::string>());
    if (!png) throw Error(expected_got(what, "a picture in base64", "other characters"));
    const std::string_view bytes(reinterpret_cast<const char*>(png->data()), png->size());
    grid.pictures.push_back({decode_image(bytes, std::string(what)), each.at("text")});
  }
  return grid;
}

AlignmentFigure alignment_from(const Json& json, std::string_view what) {
  AlignmentFigure figure{
      .caption = json.at("caption"), .source = json.at("source"), .target = json.at("target"), .panels = {}};
  for (const Json& each : json.at("panels")) {
    AlignmentPanel panel{.title = each.at("title"), .weights = numbers_from(each.at("weights")), .error_rate = {}};
    expect_count(what, "weights of an alignment", figure.source.size() * figure.target.size(), panel.weights.size());
    for (const Json& link : each.at("gold"))
      panel.gold.push_back({.source = link.at(0), .target = link.at(1), .sure = link.at(2)});
    if (const Json& rate = each.at("error_rate"); !rate.is_null()) panel.error_rate = rate.get<double>();
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

WindowOverTime window_from(const Json& json, std::string_view what) {
  WindowOverTime window{.points = points_from(json.at("points")),
                        .text = json.at("text"),
                        .window = numbers_from(json.at("window")),
                        .caption = json.at("caption")};
  std::size_t characters = 0;
  for (std::size_t offset = 0; offset < window.text.size(); ++characters)
    offset += std::max<std::size_t>(1, decode_utf8(window.text, offset).bytes);
  expect_count(what, "weights of a window", window.points.size() * (characters + 1), window.window.size());
  return window;
}

}  // namespace

Figure drawn_figure(const ShownFigure& figure) {
  return std::visit(
      Overloaded{[&](const PictureGrid& grid) {
                   return Figure{.title = figure.title, .html = pictures_html(grid), .caption = grid.caption};
                 },
                 [&](const AlignmentFigure& alignment) {
                   return Figure{.title = figure.title, .html = alignment_figure(alignment)};
                 },
                 [&](const WrittenStrokes& written) {
                   return Figure{.title = figure.title, .html = stroke_svg(written.points, {.title = figure.title})};
                 },
                 [&](const WindowOverTime& window) {
                   return Figure{.title = figure.title,
                                 .html = window_html(window.points, window.text, window.window, window.caption)};
                 }},
      figure.what);
}

Json figure_to_json(const ShownFigure& figure) {
  Json json =
      std::visit(Overloaded{[](const PictureGrid& grid) {
                              Json pictures = Json::array();
                              for (const CaptionedPicture& each : grid.pictures)
                                pictures.push_back({{"png", base64_png(each.image)}, {"text", each.text}});
                              return Json{{"kind", pictures_kind},
                                          {"columns", grid.columns},
                                          {"pictures", std::move(pictures)},
                                          {"caption", grid.caption}};
                            },
                            [](const AlignmentFigure& alignment) {
                              Json panels = Json::array();
                              for (const AlignmentPanel& panel : alignment.panels) {
                                Json gold = Json::array();
                                for (const WordLink& link : panel.gold)
                                  gold.push_back({link.source, link.target, link.sure});
                                panels.push_back({{"title", panel.title},
                                                  {"weights", numbers_json(panel.weights)},
                                                  {"gold", std::move(gold)},
                                                  {"error_rate", panel.error_rate ? Json(*panel.error_rate) : Json()}});
                              }
                              return Json{{"kind", alignment_kind},
                                          {"source", alignment.source},
                                          {"target", alignment.target},
                                          {"panels", std::move(panels)},
                                          {"caption", alignment.caption}};
                            },
                            [](const WrittenStrokes& written) {
                              return Json{{"kind", strokes_kind}, {"points", points_json(written.points)}};
                            },
                            [](const WindowOverTime& window) {
                              return Json{{"kind", window_kind},
                                          {"points", points_json(window.points)},
                                          {"text", window.text},
                                          {"window", numbers_json(window.window)},
                                          {"caption", window.caption}};
                            }},
                 figure.what);
  json["title"] = figure.title;
  return json;
}

ShownFigure figure_from_json(const Json& json, std::string_view what) {
  const std::string kind = json.at("kind"), title = json.at("title");
  if (kind == pictures_kind) return {title, pictures_from(json, what)};
  if (kind == alignment_kind) return {title, alignment_from(json, what)};
  if (kind == strokes_kind) return {title, WrittenStrokes{points_from(json.at("points"))}};
  if (kind == window_kind) return {title, window_from(json, what)};
  throw Error(expected_got(what,
                           std::string("a figure that is one of ") + pictures_kind + ", " + alignment_kind + ", " +
                               strokes_kind + ", " + window_kind,
                           kind));
}

}  // namespace cogwheel
