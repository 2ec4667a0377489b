// What a task has a page show of a model: data, which the page draws. So what was written to a file and read again is
// numbers, pictures and texts, and never markup.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cogwheel/data/alignment_links.h"
#include "cogwheel/data/image.h"
#include "cogwheel/models/stroke_point.h"

namespace cogwheel {

struct CaptionedPicture {
  Image image;
  std::string text = {};  // also what stands in for the picture
};

// Pictures side by side.
struct PictureGrid {
  std::vector<CaptionedPicture> pictures;
  int columns = 8;
  std::string caption = {};
};

struct AlignmentPanel {
  std::string title;                 // empty where the figure's says it
  std::vector<float> weights;        // [target words, source words], row by row; may be negative
  std::vector<WordLink> gold = {};   // outlined in the map
  std::optional<double> error_rate;  // of the alignment, of all that it was measured on
};

// The maps of one sentence, one or several side by side: global, local-m, local-p and gold.
struct AlignmentFigure {
  std::string caption;
  std::vector<std::string> source, target;  // words or pieces
  std::vector<AlignmentPanel> panels;
};

// What a pen wrote.
struct WrittenStrokes {
  std::vector<StrokePoint> points;
};

// And which character of its text the model attended to meanwhile.
struct WindowOverTime {
  std::vector<StrokePoint> points;
  std::string text;
  std::vector<float> window;  // [points, characters + 1], the last of which is the end of the text
  std::string caption = {};
};

struct ShownFigure {
  std::string title;
  std::variant<PictureGrid, AlignmentFigure, WrittenStrokes, WindowOverTime> what;
};

}  // namespace cogwheel
