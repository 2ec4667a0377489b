// Pen strokes as sequences of offsets, each with the text that was written.
//
// A sequence is what a pen does, point by point: how far it moves to the point, and whether it is lifted there. The
// first point is where the pen begins, so that its offset is 0; a model is given it and predicts the others. x points
// to the right and y downwards, as in pictures.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/tasks/handwriting/stroke_point.h"

namespace cogwheel::tasks::handwriting {

struct PenPosition {
  double x, y;
};

// From where the pen is set down to where it is lifted; a dot is one position.
using PenStroke = std::vector<PenPosition>;

struct StrokeSequence {
  std::vector<StrokePoint> points;
  std::string text = {};  // UTF-8; empty: none is known
  // The first point of each character (code point) of the text, then the number of points; a space has none. Empty:
  // not known.
  std::vector<std::int32_t> starts = {};
};

// A hash of the points, which is equal where two sequences draw the same, whatever text they are said to be.
std::string content_of(const StrokeSequence& sequence);

// Strokes without positions are left out, as are positions that repeat the one before within a stroke: they draw
// nothing, and the density of an offset of exactly 0 has no bound. Throws Error that names `what` for a coordinate that
// is not finite or is beyond a million: the offsets are float32.
StrokeSequence sequence_of(std::span<const PenStroke> strokes, std::string_view what);

// The strokes that a sequence draws, from (0, 0) on. The last one may not end.
std::vector<PenStroke> strokes_of(std::span<const StrokePoint> points);

// Mean and standard deviation of offsets, by which a model sees them: (offset − mean) / deviation.
struct OffsetScale {
  double mean_x = 0, mean_y = 0, deviation_x = 1, deviation_y = 1;

  // Of all offsets but those of first points. A deviation of 0 counts as 1.
  static OffsetScale of(std::span<const StrokeSequence> sequences);
  StrokePoint normalized(const StrokePoint& point) const;
  StrokePoint restored(const StrokePoint& point) const;  // its inverse

  bool operator==(const OffsetScale&) const = default;
};

}  // namespace cogwheel::tasks::handwriting
