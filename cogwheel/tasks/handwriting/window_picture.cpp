#include "cogwheel/tasks/handwriting/window_picture.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/tasks/handwriting/glyph_matching.h"
#include "cogwheel/tasks/handwriting/stroke_picture.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr double left = 40, map_width = 880, right = 12;
constexpr int levels = 16;

std::vector<std::string> labels_of(std::string_view text) {
  std::vector<std::string> labels;
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, decode_utf8(text, offset).bytes);
    labels.emplace_back(text[offset] == ' ' ? "\u2423" : text.substr(offset, bytes));
    offset += bytes;
  }
  return labels;
}

const char* parity(std::int64_t character) { return character % 2 == 0 ? "cw-even" : "cw-odd"; }
const char* colour(std::int64_t character) { return character % 2 == 0 ? "#1f5dc2" : "#9c6200"; }

// The strokes in runs of one character each.
std::string strokes_part(std::span<const StrokePoint> points, const StrokeLayout& layout,
                         std::span<const std::int32_t> character_of, double shift) {
  std::array<std::string, 2> paths;
  for (std::size_t index = 0; index < layout.positions.size(); ++index) {
    const PenPosition& at = layout.positions[index];
    const std::int32_t character = index < character_of.size() ? character_of[index] : 0;
    const bool goes_on = index > 0 && !points[index - 1].ends;
    const bool same = goes_on && index < character_of.size() && character_of[index - 1] == character;
    std::string& path = paths[static_cast<std::size_t>(character % 2)];
    if (goes_on && !same)
      path += fmt::format("M{:.1f} {:.1f}", shift + layout.positions[index - 1].x, layout.positions[index - 1].y);
    path += fmt::format("{}{:.1f} {:.1f}", goes_on ? "L" : "M", shift + at.x, at.y);
    if (!goes_on) path += "h0";  // a dot where nothing follows
  }
  std::string part;
  for (std::int64_t side : {0, 1})
    if (const std::string& path = paths[static_cast<std::size_t>(side)]; !path.empty())
      part += fmt::format("<path class=\"{} cw-line\" d=\"{}\" stroke=\"{}\"/>\n", parity(side), path, colour(side));
  return fmt::format("<g fill=\"none\" stroke-width=\"{:.1f}\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n",
                     layout.pen) +
         part + "</g>\n";
}

// Cells of the map, on a grid of one unit a cell: a path for each colour and level, of runs along the rows.
std::string cells_part(std::span<const float> window, std::size_t count, std::size_t rows, double heaviest) {
  std::array<std::array<std::string, levels + 1>, 2> paths;
  const auto level_at = [&](std::size_t point, std::size_t row) {
    const double weight = static_cast<double>(window[point * rows + row]);
    return weight > 0 ? static_cast<int>(std::round(levels * std::sqrt(std::min(1.0, weight / heaviest)))) : 0;
  };
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      const int level = level_at(begin, row);
      while (end < count && level_at(end, row) == level) ++end;
      if (level > 0)
        paths[row % 2][static_cast<std::size_t>(level)] +=
            fmt::format("M{} {}h{}v1H{}z", begin, row, end - begin, begin);
    }
  std::string part;
  for (std::int64_t side : {0, 1})
    for (int level = 1; level <= levels; ++level)
      if (const std::string& path = paths[static_cast<std::size_t>(side)][static_cast<std::size_t>(level)];
          !path.empty())
        part += fmt::format("<path class=\"{} cw-fill\" fill=\"{}\" fill-opacity=\"{:.3g}\" d=\"{}\"/>\n", parity(side),
                            colour(side), static_cast<double>(level) / levels, path);
  return part;
}

std::string pen_part(std::span<const StrokePoint> points, double cell, double y) {
  std::string path;
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    while (end < points.size() && !points[end].ends) ++end;
    end = std::min(end + 1, points.size());
    // A little short of its end, so that one stroke is told from the next.
    path += fmt::format("M{:.1f} {:.1f}h{:.1f}", left + cell * static_cast<double>(begin), y,
                        cell * (static_cast<double>(end - begin) - 0.5));
  }
  return fmt::format("<path class=\"cw-pen\" stroke=\"#686e78\" stroke-width=\"3\" d=\"{}\"/>\n", path);
}

// Numbers of points at round distances.
std::string ticks_part(std::size_t count, double cell, double y) {
  std::size_t step = 1;
  for (const std::size_t each : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000})
    if (count / step > 10) step = each;
  std::string part;
  for (std::size_t point = step; point <= count; point += step)
    part += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                        left + cell * (static_cast<double>(point) - 0.5), y,
                        pages::grouped(static_cast<std::int64_t>(point)));
  return part;
}

WindowOverTime window_from(const nlohmann::ordered_json& json, std::string_view what) {
  WindowOverTime window{.points = points_from_json(json.at("points")),
                        .text = json.at("text"),
                        .window = runs::numbers_from_json(json.at("window")),
                        .caption = json.at("caption")};
  std::size_t characters = 0;
  for (std::size_t offset = 0; offset < window.text.size(); ++characters)
    offset += std::max<std::size_t>(1, decode_utf8(window.text, offset).bytes);
  runs::expect_count(what, "weights of a window", window.points.size() * (characters + 1), window.window.size());
  return window;
}

}  // namespace

std::string window_svg(std::span<const StrokePoint> points, std::string_view text, std::span<const float> window) {
  const std::vector<std::string> labels = labels_of(text);
  const std::size_t rows = labels.size() + 1;
  if (window.size() != points.size() * rows)
    throw Error(expected_got("window", fmt::format("{} points × {} weights", points.size(), rows),
                             std::to_string(window.size())));
  double heaviest = 0;
  for (const float weight : window)
    if (std::isfinite(weight)) heaviest = std::max(heaviest, static_cast<double>(weight));
  const std::vector<std::int32_t> character_of = attended_characters(window, static_cast<std::int64_t>(labels.size()));
  const StrokeLayout layout = lay_out(points, map_width);
  const double cell = map_width / static_cast<double>(std::max<std::size_t>(1, points.size()));
  const double row_height = std::clamp(420 / static_cast<double>(rows), 8.0, 18.0);
  const double top = layout.height + 8, bottom = top + row_height * static_cast<double>(rows);
  const std::string title = xml_text("The window over time while “" + std::string(text) + "” is written");
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cw-picture\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" style=\"max-width:100%;height:auto\" role=\"img\" aria-label=\"{2}\" "
      "font-family=\"ui-monospace, Menlo, Consolas, monospace\">\n<title>{2}</title>\n<style>\n{3}</style>\n"
      "<rect class=\"cw-paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      left + map_width + right, std::ceil(bottom + 38), title, pages::embedded::picture_css);
  svg += strokes_part(points, layout, character_of, left + std::max(0.0, (map_width - layout.width) / 2));
  svg += fmt::format(
      "<rect class=\"cw-rule\" fill=\"none\" stroke=\"#e0e0da\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" "
      "height=\"{:.1f}\"/>\n",
      left, top, map_width, bottom - top);
  if (!points.empty())
    svg += fmt::format("<g transform=\"translate({} {:.1f}) scale({:.4f} {:.4f})\" shape-rendering=\"crispEdges\">\n",
                       left, top, cell, row_height) +
           cells_part(window, points.size(), rows, heaviest) + "</g>\n" + pen_part(points, cell, bottom + 7);
  const double size = std::min(13.0, row_height);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto number = static_cast<std::int64_t>(row);
    svg += fmt::format(
        "<text class=\"{} cw-fill\" fill=\"{}\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" "
        "font-size=\"{:.1f}\">{}</text>\n",
        parity(number), colour(number), left - 7, top + row_height * (static_cast<double>(row) + 0.5) + 0.34 * size,
        size, row < labels.size() ? xml_text(labels[row]) : "end");
  }
  svg += "<g class=\"cw-text\" fill=\"#686e78\" font-size=\"11\">\n" + ticks_part(points.size(), cell, bottom + 23);
  svg += fmt::format(
      "<text x=\"{}\" y=\"{:.1f}\">points of the pen; colour by the square root of the weight, full at {}</text>\n",
      left, bottom + 36, pages::fixed(heaviest, 2));
  return svg + "</g>\n</svg>\n";
}

std::string window_html(std::span<const StrokePoint> points, std::string_view text, std::span<const float> window,
                        std::string_view caption) {
  return pages::fill_template(pages::embedded::window_html,
                              {{"svg", window_svg(points, text, window)}, {"caption", pages::escape_html(caption)}});
}

pages::Figure drawn_figure(const WindowOverTime& window, const std::string& title) {
  return {.title = title, .html = window_html(window.points, window.text, window.window, window.caption)};
}

nlohmann::ordered_json figure_json(const WindowOverTime& window) {
  return {{"kind", "window"},
          {"points", points_as_json(window.points)},
          {"text", window.text},
          {"window", runs::numbers_as_json(window.window)},
          {"caption", window.caption}};
}

runs::FigureKind window_figure() {
  return {"window", [](const nlohmann::ordered_json& json, const std::string& title, std::string_view what) {
            return runs::ShownFigure(title, window_from(json, what));
          }};
}

}  // namespace cogwheel::tasks::handwriting
