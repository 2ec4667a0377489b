// Reads handwriting back: cuts strokes into characters, and finds the glyph of the built-in font that each is nearest
// to by dynamic time warping (Sakoe and Chiba 1978).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cogwheel/tasks/handwriting/strokes.h"

namespace cogwheel::tasks::handwriting {

// For each point the character that a window attends to most, of its weights [points, characters + 1], whose last
// column is the end of the text and is not asked. Where no character has a weight above 0 it is that of the point
// before.
std::vector<std::int32_t> attended_characters(std::span<const float> window, std::int64_t characters);

// The same of known boundaries, StrokeSequence::starts.
std::vector<std::int32_t> written_characters(std::span<const std::int32_t> starts);

struct CharacterMatch {
  char written = 0;     // what the text says
  char nearest = 0;     // what the strokes look like; 0: the character has no strokes
  double distance = 0;  // to it, in x-heights for each step of the two lines
  bool matches() const { return nearest == written; }
};

class CutDrawing;
struct CutCharacter;

class GlyphMatcher {
 public:
  // Which characters of the font are told apart; their glyphs are tried at three slants.
  explicit GlyphMatcher(std::string_view characters);

  // One for each character of the text but spaces. `character_of` is that of each point; offsets are not normalised.
  //
  // The size and the base line of the writing are those that fit the heights of the whole text best, its slant is the
  // nearest of three, and each character is moved sideways to where it fits; so `o` and `O`, or a comma and an
  // apostrophe, differ. A window lets go of a character a little before or after the pen does: so a cut moves, by up to
  // four points, to where the distances of all characters together are least, whatever the text says. This takes some
  // milliseconds a character.
  std::vector<CharacterMatch> match(std::span<const StrokePoint> points, std::string_view text,
                                    std::span<const std::int32_t> character_of) const;

 private:
  struct Step {
    double x, y, direction_x, direction_y;  // of the line of the pen there, 0 for a dot
  };
  using Line = std::vector<Step>;
  struct Template {
    char character;
    Line line;
  };

  static Line line_of(const std::vector<PenStroke>& strokes);
  static double distance(const Line& a, const Line& b, double limit);
  CharacterMatch nearest(const Line& line, std::size_t slant) const;
  std::size_t nearest_slant(const CutDrawing& drawing, std::span<const CutCharacter> characters) const;
  void move_cuts(const CutDrawing& drawing, std::size_t slant, std::vector<CutCharacter>& characters) const;

  std::array<std::vector<Template>, 3> templates_;  // by slant
};

}  // namespace cogwheel::tasks::handwriting
