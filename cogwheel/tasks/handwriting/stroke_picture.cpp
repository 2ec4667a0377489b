#include "cogwheel/tasks/handwriting/stroke_picture.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr double margin = 12;

// The d of a path; a line without length is a dot.
std::string path_of(std::span<const PenPosition> positions) {
  std::string path;
  for (std::size_t index = 0; index < positions.size(); ++index)
    path += fmt::format("{}{:.1f} {:.1f}",
                        index == 0   ? "M"
                        : index == 1 ? "L"
                                     : " ",
                        positions[index].x, positions[index].y);
  return positions.size() == 1 ? path + "h0" : path;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string kept;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint code_point = decode_utf8(text, offset);
    const bool shown = code_point.bytes > 0 && code_point.value >= 0x20 && code_point.value != 0x7f &&
                       code_point.value != 0xfffe && code_point.value != 0xffff;
    kept += shown ? std::string(text.substr(offset, code_point.bytes)) : "\uFFFD";
    offset += std::max<std::size_t>(1, code_point.bytes);
  }
  return pages::escape_html(kept);
}

StrokeLayout lay_out(std::span<const StrokePoint> points, double max_width) {
  StrokeLayout layout;
  PenPosition pen{0, 0}, low{0, 0}, high{0, 0};
  for (std::size_t index = 0; index < points.size(); ++index) {
    const StrokePoint& point = points[index];
    if (index > 0) pen = {pen.x + static_cast<double>(point.dx), pen.y + static_cast<double>(point.dy)};
    if (!std::isfinite(pen.x) || !std::isfinite(pen.y)) break;
    low = {std::min(low.x, pen.x), std::min(low.y, pen.y)};
    high = {std::max(high.x, pen.x), std::max(high.y, pen.y)};
    layout.positions.push_back(pen);
  }
  const double width = high.x - low.x, height = high.y - low.y;
  // Both may be 0: of a dot, of a straight line.
  const double side = std::max(width, height);
  const double shown_height = side > 0 ? std::clamp(480 * height / side, 96.0, 240.0) : 0;
  double scale = side > 0 ? (max_width - 2 * margin) / side : 1;
  if (height > 0) scale = std::min(scale, shown_height / height);
  for (PenPosition& at : layout.positions) at = {margin + scale * (at.x - low.x), margin + scale * (at.y - low.y)};
  layout.width = 2 * margin + scale * width;
  layout.height = 2 * margin + scale * height;
  layout.pen = std::sqrt(std::max(96.0, scale * height) / 16);
  return layout;
}

std::string stroke_svg(std::span<const StrokePoint> points, const StrokePicture& options) {
  const StrokeLayout layout = lay_out(points, 2000);
  const std::string title = xml_text(layout.positions.empty() ? options.title + " (no strokes)" : options.title);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cw-picture\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" style=\"max-width:100%;height:auto\" role=\"img\" "
      "aria-label=\"{2}\">\n<title>{2}</title>\n<style>\n{3}{4}</style>\n"
      "<rect class=\"cw-paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<g class=\"cw-ink{5}\" fill=\"none\" stroke=\"#191c20\" stroke-width=\"{6:.1f}\" stroke-linecap=\"round\" "
      "stroke-linejoin=\"round\">\n",
      std::ceil(layout.width), std::ceil(layout.height), title, pages::embedded::picture_css,
      options.animated ? pages::embedded::animation_css : "", options.animated ? " cw-drawn" : "", layout.pen);
  const std::size_t count = layout.positions.size();
  const double rate = std::isfinite(options.points_per_second) ? std::max(1.0, options.points_per_second) : 60;
  double moves = 0;  // of the pen in the air, which take as long as two points
  for (std::size_t begin = 0; begin < count; moves += 2) {
    std::size_t end = begin;
    while (end + 1 < count && !points[end].ends) ++end;
    const std::span<const PenPosition> line(layout.positions.data() + begin, end + 1 - begin);
    svg += fmt::format("<path d=\"{}\"", path_of(line));
    if (options.animated)
      svg += fmt::format(" pathLength=\"1\"{} style=\"--cw-start:{:.3f}s;--cw-time:{:.3f}s\"",
                         line.size() == 1 ? " class=\"cw-dot\"" : "", (static_cast<double>(begin) + moves) / rate,
                         static_cast<double>(line.size()) / rate);
    svg += "/>\n";
    begin = end + 1;
  }
  return svg + "</g>\n</svg>\n";
}

nlohmann::ordered_json points_as_json(std::span<const StrokePoint> points) {
  auto json = nlohmann::ordered_json::array();
  for (const StrokePoint& point : points) {
    json.push_back(runs::numbers_as_json({point.dx, point.dy}));
    json.back().push_back(point.ends);
  }
  return json;
}

std::vector<StrokePoint> points_from_json(const nlohmann::ordered_json& json) {
  std::vector<StrokePoint> points;
  for (const auto& each : json) {
    const std::vector<float> offset = runs::numbers_from_json({each.at(0), each.at(1)});
    points.push_back({.dx = offset[0], .dy = offset[1], .ends = each.at(2).get<bool>()});
  }
  return points;
}

pages::Figure drawn_figure(const WrittenStrokes& written, const std::string& title) {
  return {.title = title, .html = stroke_svg(written.points, {.title = title})};
}

nlohmann::ordered_json figure_json(const WrittenStrokes& written) {
  return {{"kind", "strokes"}, {"points", points_as_json(written.points)}};
}

runs::FigureKind strokes_figure() {
  return {"strokes", [](const nlohmann::ordered_json& json, const std::string& title, std::string_view) {
            return runs::ShownFigure(title, WrittenStrokes{points_from_json(json.at("points"))});
          }};
}

}  // namespace cogwheel::tasks::handwriting
