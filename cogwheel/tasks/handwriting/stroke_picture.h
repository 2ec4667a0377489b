// Strokes as SVG that stands by itself: no script, nothing from elsewhere, and colours for light and dark.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

struct StrokePicture {
  bool animated = false;  // the pen draws; still where a reader asks for less motion, on paper, and without CSS
  double points_per_second = 60;
  std::string title = "Handwriting";
};

// The whole file. Without points an empty picture that says so. Points from one that is not finite on are left out.
std::string stroke_svg(std::span<const StrokePoint> points, const StrokePicture& options = {});

// Where points lie on a picture with a margin around the drawing.
struct StrokeLayout {
  double width = 0, height = 0;
  double pen = 0;                      // the width of a line
  std::vector<PenPosition> positions;  // of those points that are drawn
};

// A long line of text is 96 high, a drawing about as high as wide 240; neither is wider than `max_width`.
StrokeLayout lay_out(std::span<const StrokePoint> points, double max_width);

// Text that XML may hold: escaped, and without control characters and what is not UTF-8.
std::string xml_text(std::string_view text);

// What a pen wrote, as a figure of a page.
struct WrittenStrokes {
  std::vector<StrokePoint> points;
};
pages::Figure drawn_figure(const WrittenStrokes& written, const std::string& title);
nlohmann::ordered_json figure_json(const WrittenStrokes& written);

// Points of a pen as figures keep them.
nlohmann::ordered_json points_as_json(std::span<const StrokePoint> points);
std::vector<StrokePoint> points_from_json(const nlohmann::ordered_json& json);

}  // namespace cogwheel::tasks::handwriting
