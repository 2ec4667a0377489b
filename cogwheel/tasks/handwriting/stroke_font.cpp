#include "cogwheel/tasks/handwriting/stroke_font.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::tasks::handwriting {
namespace {

struct GlyphLine {
  char character;
  const char* strokes;
};

// Positions x,y on a grid on which the base line is 0, the x-height 10 and a capital 15, y upwards; ! is a corner, and
// ; lifts the pen.
constexpr GlyphLine glyph_lines[] = {
    {' ', ""},
    {'!', "1,16 1,4 ; 1,0"},
    {'"', "1,16 1,12 ; 4,16 4,12"},
    {'#', "4,14 2,1 ; 9,14 7,1 ; 1,10 10,10 ; 1,5 10,5"},
    {'$', "9,12 6,14 2,12 5,8 9,5 6,1 1,3 ; 5,17 5,-2"},
    {'%', "3,14 1,12 3,9 5,12 3,14 ; 10,14 2,0 ; 9,5 7,2 9,0 11,2 9,5"},
    {'&', "11,0 3,12 5,15 8,13 2,6 1,3 4,0 8,1 11,6"},
    {'\'', "1,16 1,12"},
    {'(', "4,17 1,11 1,4 4,-2"},
    {')', "1,17 4,11 4,4 1,-2"},
    {'*', "4,16 4,9 ; 1,14 7,11 ; 7,14 1,11"},
    {'+', "5,12 5,2 ; 1,7 9,7"},
    {',', "2,1 1,-3"},
    {'-', "1,6 6,6"},
    {'.', "1,0"},
    {'/', "8,16 1,-1"},
    {'0', "6,14 2,11 1,7 2,2 5,0 8,2 9,7 8,12 6,14 ; 8,12 2,2"},
    {'1', "1,10 4,14! 4,0"},
    {'2', "1,11 3,14 7,13 8,10 5,5 1,0! 9,0"},
    {'3', "1,13 5,14 8,11 7,8 4,7! 8,6 9,3 5,0 1,1"},
    {'4', "7,0 7,14! 1,4! 10,4"},
    {'5', "9,14 2,14! 1,8! 5,9 9,6 8,2 4,0 1,1"},
    {'6', "8,13 4,11 1,6 2,1 5,0 8,2 8,6 5,8 1,5"},
    {'7', "1,14 9,14! 4,0 ; 3,7 8,7"},
    {'8', "8,12 5,14 2,12 3,9 7,6 9,3 5,0 1,3 3,6 7,9 8,12"},
    {'9', "8,9 5,6 2,8 2,12 5,14 8,12 8,9 7,4 5,0"},
    {':', "1,8 ; 1,1"},
    {';', "2,8 ; 2,1 1,-3"},
    {'<', "8,12 1,7! 8,2"},
    {'=', "1,9 9,9 ; 1,5 9,5"},
    {'>', "1,12 8,7! 1,2"},
    {'?', "1,13 4,16 8,14 7,10 4,7 4,4 ; 4,0"},
    {'@', "9,9 6,10 4,7 5,4 8,5 9,9! 9,5 11,4 13,8 10,13 5,14 1,9 2,3 7,0 11,1"},
    {'A', "1,0 7,15! 13,0 ; 3,5 11,5"},
    {'B', "1,15 1,0 ; 1,15 7,15 9,12 7,9 1,8! 8,7 10,4 8,1 1,0"},
    {'C', "12,12 8,15 3,13 1,8 3,2 8,0 12,3"},
    {'D', "1,15 1,0 ; 1,15 6,15 11,12 12,7 10,2 6,0 1,0"},
    {'E', "10,15 1,15! 1,0! 10,0 ; 1,8 8,8"},
    {'F', "10,15 1,15! 1,0 ; 1,8 8,8"},
    {'G', "12,12 8,15 3,13 1,8 3,2 8,0 12,2 12,7! 8,7"},
    {'H', "1,15 1,0 ; 11,15 11,0 ; 1,8 11,8"},
    {'I', "1,15 7,15 ; 4,15 4,0 ; 1,0 7,0"},
    {'J', "9,15 9,4 7,0 3,0 1,3"},
    {'K', "1,15 1,0 ; 10,15 1,6! 11,0"},
    {'L', "1,15 1,0! 10,0"},
    {'M', "1,0 2,15! 7,4! 12,15! 13,0"},
    {'N', "1,0 1,15! 11,0! 11,15"},
    {'O', "7,15 2,12 1,7 3,2 7,0 11,2 13,7 12,12 7,15"},
    {'P', "1,15 1,0 ; 1,15 7,15 10,12 9,8 6,7 1,7"},
    {'Q', "7,15 2,12 1,7 3,2 7,0 11,2 13,7 12,12 7,15 ; 8,4 13,-1"},
    {'R', "1,15 1,0 ; 1,15 7,15 10,12 8,8 2,7! 10,0"},
    {'S', "10,12 7,15 3,14 2,11 5,8 9,6 10,3 7,0 3,0 1,3"},
    {'T', "1,15 11,15 ; 6,15 6,0"},
    {'U', "1,15 1,5 3,1 6,0 9,1 11,5 11,15"},
    {'V', "1,15 7,0! 13,15"},
    {'W', "1,15 5,0! 9,13! 13,0! 17,15"},
    {'X', "1,15 11,0 ; 11,15 1,0"},
    {'Y', "1,15 6,7! 6,0 ; 11,15 6,7"},
    {'Z', "1,15 11,15! 1,0! 12,0"},
    {'[', "4,17 1,17! 1,-2! 4,-2"},
    {'\\', "1,16 8,-1"},
    {']', "1,17 4,17! 4,-2! 1,-2"},
    {'^', "1,11 4,15! 7,11"},
    {'_', "0,-2 9,-2"},
    {'`', "1,16 3,13"},
    {'a', "8,9 5,10 2,8 1,4 3,0 6,1 8,5 8,10! 8,3 9,0 11,1"},
    {'b', "1,16 1,1! 2,7 5,10 8,8 8,2 5,0 1,1"},
    {'c', "8,8 5,10 2,8 1,4 3,1 6,0 9,2"},
    {'d', "8,9 5,10 2,8 1,4 3,0 6,1 8,5 8,16! 8,3 9,0 11,1"},
    {'e', "1,5 6,6 8,8 5,10 2,8 1,4 3,1 6,0 9,2"},
    {'f', "8,14 6,16 4,13 4,0 ; 1,10 7,10"},
    {'g', "8,9 5,10 2,8 1,4 3,0 6,1 8,5 8,10! 8,-3 5,-6 1,-5"},
    {'h', "1,16 1,0! 2,7 5,10 8,8 8,2 9,0 11,1"},
    {'i', "1,10 1,2 2,0 4,1 ; 1,14"},
    {'j', "5,10 5,-3 3,-6 0,-5 ; 5,14"},
    {'k', "1,16 1,0 ; 8,10 1,4! 5,4 7,0 10,1"},
    {'l', "1,16 1,3 2,0 5,1"},
    {'m', "1,10 1,0! 2,7 4,10 6,8 6,0! 7,7 9,10 11,8 11,2 12,0 14,1"},
    {'n', "1,10 1,0! 2,7 5,10 8,8 8,2 9,0 11,1"},
    {'o', "6,10 3,9 1,5 2,1 5,0 8,1 9,5 8,9 5,10"},
    {'p', "1,10 1,-6! 2,7 5,10 8,8 8,2 5,0 1,1"},
    {'q', "8,9 5,10 2,8 1,4 3,0 6,1 8,5 8,10! 8,-6! 11,-3"},
    {'r', "1,10 1,0! 2,6 4,9 8,10"},
    {'s', "8,8 5,10 2,9 2,6 5,5 8,4 8,1 5,0 1,1"},
    {'t', "4,15 4,2 5,0 8,1 ; 1,10 8,10"},
    {'u', "1,10 1,3 3,0 6,1 8,4 8,10! 8,2 9,0 11,1"},
    {'v', "1,10 5,0! 9,10"},
    {'w', "1,10 4,0! 7,8! 10,0! 13,10"},
    {'x', "1,10 9,0 ; 9,10 1,0"},
    {'y', "1,10 1,4 3,1 6,1 8,5 8,10! 8,-3 5,-6 1,-5"},
    {'z', "1,10 8,10! 1,0! 9,0"},
    {'{', "5,17 3,15 3,9 1,7! 3,5 3,0 5,-2"},
    {'|', "1,18 1,-4"},
    {'}', "1,17 3,15 3,9 5,7! 3,5 3,0 1,-2"},
    {'~', "1,6 3,8 6,6 8,8"},
};

Glyph glyph_of(const GlyphLine& line) {
  constexpr double unit = 10, gap = 3, space = 8;
  Glyph glyph;
  glyph.character = line.character;
  std::vector<PenPosition> positions;
  double right = 0;
  const auto lift = [&] {
    if (!positions.empty()) glyph.strokes.push_back(smooth_line(positions, 8));
    positions.clear();
  };
  for (const char* text = line.strokes; *text != '\0'; ++text) {
    if (*text == ';') lift();
    if (*text == ';' || *text == ' ') continue;
    char* end = nullptr;
    const double x = std::strtod(text, &end), y = std::strtod(end + 1, &end);
    right = std::max(right, x);
    positions.insert(positions.end(), *end == '!' ? 2 : 1, {x / unit, 0 - y / unit});
    text = *end == '!' ? end : end - 1;
  }
  lift();
  glyph.advance = (glyph.strokes.empty() ? space : right + gap) / unit;
  if (line.character >= 'a' && line.character <= 'z') {
    const PenPosition first = glyph.strokes.front().front(), last = glyph.strokes.back().back();
    const auto in_reach = [](const PenPosition& at) { return at.y <= 0.2 && at.y >= -1.05; };
    // A line to the right side of a letter would cross it: a c became an e.
    glyph.enters = in_reach(first) && first.x < 0.5 * right / unit;
    glyph.leaves = in_reach(last) && last.x > 0.6 * right / unit && glyph.strokes.back().size() > 1;
  }
  return glyph;
}

double distance(const PenPosition& a, const PenPosition& b) {
  return std::sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
}

}  // namespace

std::span<const Glyph> stroke_font() {
  static const std::vector<Glyph> font = [] {
    std::vector<Glyph> glyphs;
    for (const GlyphLine& line : glyph_lines) glyphs.push_back(glyph_of(line));
    return glyphs;
  }();
  return font;
}

const Glyph* glyph_or_null(char32_t character) {
  return character >= ' ' && character <= '~' ? &stroke_font()[character - ' '] : nullptr;
}

void expect_in_font(std::string_view text, std::string_view what) {
  for (std::size_t offset = 0; offset < text.size(); ++offset)  // characters of a byte each, up to the first other
    if (glyph_or_null(static_cast<unsigned char>(text[offset])) == nullptr)
      throw Error(expected_got(what, "characters of the built-in handwriting, a space to ~ of ASCII",
                               code_point_text(text, offset)));
}

PenStroke smooth_line(std::span<const PenPosition> positions, int pieces) {
  PenStroke line{positions.front()};
  for (std::size_t index = 0; index + 1 < positions.size(); ++index) {
    const PenPosition from = positions[index], to = positions[index + 1];
    const double between = std::sqrt(distance(from, to));
    if (between == 0) continue;
    // At an end or a corner the line leaves towards the next position.
    const double before = index == 0 ? 0 : std::sqrt(distance(positions[index - 1], from));
    const double after = index + 2 == positions.size() ? 0 : std::sqrt(distance(to, positions[index + 2]));
    const auto coordinate = [&](double PenPosition::*axis, double t) {
      const double a = from.*axis, b = to.*axis, chord = b - a;
      double start = chord, end = chord;
      if (before > 0) {
        const double p = positions[index - 1].*axis;
        start = between * ((a - p) / before - (b - p) / (before + between)) + chord;
      }
      if (after > 0) {
        const double n = positions[index + 2].*axis;
        end = between * ((n - b) / after - (n - a) / (between + after)) + chord;
      }
      return a + t * (start + t * ((3 * chord - 2 * start - end) + t * (start + end - 2 * chord)));
    };
    for (int piece = 1; piece <= pieces; ++piece) {
      const double t = static_cast<double>(piece) / pieces;
      line.push_back({coordinate(&PenPosition::x, t), coordinate(&PenPosition::y, t)});
    }
  }
  return line;
}

PenStroke evenly_spaced(const PenStroke& line, double step) {
  double length = 0;
  for (std::size_t index = 1; index < line.size(); ++index) length += distance(line[index - 1], line[index]);
  if (length == 0) return {line.front()};
  const double count = std::max(1.0, std::floor(length / step + 0.5));
  PenStroke positions{line.front()};
  double walked = 0;
  for (std::size_t index = 1; index < line.size(); ++index) {
    const double piece = distance(line[index - 1], line[index]);
    while (static_cast<double>(positions.size()) < count) {
      const double target = length * static_cast<double>(positions.size()) / count;
      if (target > walked + piece) break;
      const double part = (target - walked) / piece;
      positions.push_back({line[index - 1].x + part * (line[index].x - line[index - 1].x),
                           line[index - 1].y + part * (line[index].y - line[index - 1].y)});
    }
    walked += piece;
  }
  positions.push_back(line.back());
  return positions;
}

}  // namespace cogwheel::tasks::handwriting
