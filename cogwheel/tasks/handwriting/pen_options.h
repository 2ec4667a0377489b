// The options of drawing handwriting (pen_sampling.h).
#pragma once
#include <cstdint>

#include "cogwheel/core/range.h"
#include "cogwheel/tasks/handwriting/stroke_point.h"

namespace cogwheel::tasks::handwriting {

struct PenOptions {
  double bias = 0;  // 0: as the model says; more: tidier (mixture_density.h)
  std::uint64_t seed = 1337;
  // The most points of a text, for each of its characters; a sample whose stop rule is never met ends there.
  std::int64_t points_per_character = 40;
  std::int64_t points = 700;  // without a window, which knows no end
  // What the model reads first where no strokes are given: an offset of 0 as its lines have it, normalised.
  StrokePoint start = {.dx = 0, .dy = 0, .ends = false};
};

inline constexpr Range<double> pen_bias_range{0, 100};

}  // namespace cogwheel::tasks::handwriting
