// Built-in handwriting: any text that the font has characters for, as a pen might write it in a style drawn from a
// seed.
#pragma once
#include <cstdint>
#include <string_view>

#include "cogwheel/core/random.h"
#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

// Lengths are in x-heights of the font.
struct HandwritingStyle {
  double slant = 0;    // to the right per unit of height
  double size = 1;     // the x-height
  double width = 1;    // of characters, over that of the font
  double speed = 3.5;  // points per x-height of the font
  double jitter = 0;   // deviation of a point from the line; of the letters' own sizes and places, twice that
  double joins = 0;    // the probability that the pen stays down between two letters that can be joined
};

// The ranges from which styles are drawn.
HandwritingStyle drawn_style(NumberedDraws& draws);

// The strokes of a text, with the first point of each character: a line that joins two letters is half the first's,
// half the second's. Throws Error that names a character which the font lacks. Without a style, one is drawn.
StrokeSequence write_by_hand(std::string_view text, const HandwritingStyle& style, NumberedDraws& draws);
StrokeSequence write_by_hand(std::string_view text, std::uint64_t seed, std::uint64_t number);

}  // namespace cogwheel::tasks::handwriting
