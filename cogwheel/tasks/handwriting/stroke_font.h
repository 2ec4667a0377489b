// The built-in handwriting font: one line of the pen for each character that ASCII prints, drawn for Cogwheel.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

struct Glyph {
  char character = 0;
  double advance = 0;              // from the left edge of this character to that of the next
  std::vector<PenStroke> strokes;  // smooth lines as many short ones; the x-height is 1, the base line y = 0

  // Whether a pen may go on from it to the next letter, and from the letter before to it, without being lifted.
  bool leaves = false, enters = false;
};

// In the order of ASCII, a space (without strokes) first.
std::span<const Glyph> stroke_font();

// The glyph of a character, or null.
const Glyph* glyph_or_null(char32_t character);

// Throws Error that names the first character of the text that the font lacks.
void expect_in_font(std::string_view text, std::string_view what);

// A smooth line through positions (centripetal Catmull-Rom, which neither overshoots nor loops), `pieces` short lines
// from each to the next. Where a position is given twice the line has a corner.
PenStroke smooth_line(std::span<const PenPosition> positions, int pieces);

// Positions along a line at distances of about `step`, the ends included; of a dot the one that it has.
PenStroke evenly_spaced(const PenStroke& line, double step);

}  // namespace cogwheel::tasks::handwriting
