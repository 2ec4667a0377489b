// Handwriting drawn point by point from a model.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/tasks/handwriting/handwriting_model.h"
#include "cogwheel/tasks/handwriting/pen_options.h"
#include "cogwheel/tasks/handwriting/stroke_point.h"

namespace cogwheel::tasks::handwriting {

// Strokes to begin with, as a model sees them, and what they say: what follows is in the same hand. Without a window
// the text is ignored.
struct PrimedStrokes {
  std::vector<StrokePoint> points;
  std::vector<Token> text;
};

struct GeneratedStrokes {
  // Normalised offsets, the start first; after a prime, whose points are left out, those drawn alone.
  std::vector<StrokePoint> points;
  std::vector<float> window;  // [points, text + 1], a row for each point; empty without a window
  // Whether the stop rule was met: the window was furthest along at the end of the text.
  bool ended = true;
};

// `text` in the numbers of the alphabet. The same model, text and options give the same points. `on_point` is called
// after each and ends the drawing by returning false. Throws UsageError for options out of range, for no text where
// there is a window, and for a prime without points.
GeneratedStrokes generate_strokes(Handwriting& model, std::span<const Token> text, const PenOptions& options,
                                  const PrimedStrokes* prime = nullptr, const std::function<bool()>& on_point = {});

}  // namespace cogwheel::tasks::handwriting
