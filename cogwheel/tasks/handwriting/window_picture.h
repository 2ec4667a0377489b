// The window of a handwriting model over time: which character it attends to while the pen writes (Graves 2013).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/shown_figure.h"
#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

// The strokes above a heat map of the window's weights [points, characters + 1], the last of which is the end of the
// text. SVG that stands by itself or within a page of a report, whose colours it takes. Empty strokes or text give an
// empty map. Throws Error for another number of weights.
std::string window_svg(std::span<const StrokePoint> points, std::string_view text, std::span<const float> window);

// The same as a figure of a page, with what is to be seen beneath a caption of one sentence.
std::string window_html(std::span<const StrokePoint> points, std::string_view text, std::span<const float> window,
                        std::string_view caption);

// Which character of its text a model attended to while it wrote.
struct WindowOverTime {
  std::vector<StrokePoint> points;
  std::string text;
  std::vector<float> window;  // [points, characters + 1], the last of which is the end of the text
  std::string caption = {};
};
pages::Figure drawn_figure(const WindowOverTime& window, const std::string& title);
nlohmann::ordered_json figure_json(const WindowOverTime& window);

}  // namespace cogwheel::tasks::handwriting
