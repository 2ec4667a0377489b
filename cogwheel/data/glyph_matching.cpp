#include "cogwheel/data/glyph_matching.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/data/stroke_font.h"

namespace cogwheel {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Heights {
  double top = infinite, bottom = -infinite;  // y points downwards

  explicit Heights(const std::vector<PenStroke>& strokes) {
    for (const PenStroke& stroke : strokes)
      for (const PenPosition& at : stroke) top = std::min(top, at.y), bottom = std::max(bottom, at.y);
  }
};

// y of the drawing = size · y of the font + base, by least squares over tops and bottoms.
struct Frame {
  double size = 1, base = 0;

  Frame(const std::vector<std::vector<PenStroke>>& drawn, std::string_view text) {
    double count = 0, sum = 0, sum_drawn = 0, squares = 0, products = 0;
    const auto add = [&](double font, double here) {
      count += 1, sum += font, sum_drawn += here, squares += font * font, products += font * here;
    };
    for (std::size_t index = 0; index < text.size(); ++index) {
      const Glyph* glyph = glyph_or_null(static_cast<unsigned char>(text[index]));
      if (drawn[index].empty() || glyph == nullptr || glyph->strokes.empty()) continue;
      const Heights font(glyph->strokes), here(drawn[index]);
      add(font.top, here.top), add(font.bottom, here.bottom);
    }
    if (count == 0) return;
    const double spread = squares - sum * sum / count;
    const double fitted = spread > 0.01 ? (products - sum * sum_drawn / count) / spread : 1;
    size = std::clamp(fitted, 0.25, 4.0);  // of a drawing that is nothing like the text
    base = (sum_drawn - size * sum) / count;
  }
};

// The strokes of each character: a stroke that goes on from one to the next is cut there.
std::vector<std::vector<PenStroke>> cut(std::span<const StrokePoint> points, std::size_t characters,
                                        std::span<const std::int32_t> character_of) {
  std::vector<std::vector<PenStroke>> drawn(characters);
  PenPosition pen{0, 0};
  std::int32_t before = -1;
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (index > 0) pen = {pen.x + static_cast<double>(points[index].dx), pen.y + static_cast<double>(points[index].dy)};
    const std::int32_t character = character_of[index];
    auto& strokes = drawn[static_cast<std::size_t>(character)];
    if (index == 0 || points[index - 1].ends || character != before) strokes.emplace_back();
    strokes.back().push_back(pen);
    before = character;
  }
  return drawn;
}

}  // namespace

std::vector<std::int32_t> attended_characters(std::span<const float> window, std::int64_t characters) {
  std::vector<std::int32_t> attended;
  const auto columns = static_cast<std::size_t>(characters) + 1;
  for (std::size_t row = 0; characters > 0 && (row + 1) * columns <= window.size(); ++row) {
    const auto weights = window.subspan(row * columns, columns - 1);
    std::int32_t best = attended.empty() ? 0 : attended.back();
    float largest = 0;
    for (std::size_t column = 0; column < weights.size(); ++column)
      if (weights[column] > largest) largest = weights[column], best = static_cast<std::int32_t>(column);
    attended.push_back(best);
  }
  return attended;
}

std::vector<std::int32_t> written_characters(std::span<const std::int32_t> starts) {
  std::vector<std::int32_t> written;
  for (std::size_t index = 0; index + 1 < starts.size(); ++index)
    written.insert(written.end(), static_cast<std::size_t>(starts[index + 1] - starts[index]),
                   static_cast<std::int32_t>(index));
  return written;
}

GlyphMatcher::GlyphMatcher(std::string_view characters) {
  for (const char character : characters) {
    const Glyph* glyph = glyph_or_null(static_cast<unsigned char>(character));
    if (glyph == nullptr || glyph->strokes.empty()) continue;
    for (const double slant : {-0.05, 0.1, 0.25}) {
      std::vector<PenStroke> strokes;
      for (const PenStroke& stroke : glyph->strokes) {
        strokes.push_back(evenly_spaced(stroke, 1 / 3.5));
        for (PenPosition& at : strokes.back()) at.x -= slant * at.y;
      }
      templates_.push_back({character, line_of(strokes)});
    }
  }
}

GlyphMatcher::Line GlyphMatcher::line_of(const std::vector<PenStroke>& strokes) {
  Line line;
  double sum = 0;
  for (const PenStroke& stroke : strokes)
    for (std::size_t index = 0; index < stroke.size(); ++index) {
      const PenPosition &before = stroke[index == 0 ? 0 : index - 1],
                        &after = stroke[std::min(index + 1, stroke.size() - 1)];
      const double x = after.x - before.x, y = after.y - before.y, length = std::sqrt(x * x + y * y);
      line.push_back({stroke[index].x, stroke[index].y, length > 0 ? x / length : 0, length > 0 ? y / length : 0});
      sum += stroke[index].x;
    }
  for (Step& step : line) step.x -= sum / static_cast<double>(line.size());
  return line;
}

// The sum of distances along the best way through both lines, over its steps; a diagonal step counts twice. Gives up
// beyond the limit.
double GlyphMatcher::distance(const Line& a, const Line& b, double limit) {
  constexpr double turning = 0.3;  // what a line in another direction adds, in x-heights
  const double steps = static_cast<double>(a.size() + b.size());
  std::vector<double> row(b.size() + 1, infinite), next(b.size() + 1, infinite);
  row[0] = 0;
  for (const Step& here : a) {
    double least = infinite;
    next[0] = infinite;
    for (std::size_t index = 0; index < b.size(); ++index) {
      const Step& there = b[index];
      const double x = here.x - there.x, y = here.y - there.y;
      const double u = here.direction_x - there.direction_x, v = here.direction_y - there.direction_y;
      const double cost = std::sqrt(x * x + y * y) + turning * std::sqrt(u * u + v * v);
      next[index + 1] = std::min({row[index] + 2 * cost, row[index + 1] + cost, next[index] + cost});
      least = std::min(least, next[index + 1]);
    }
    if (least > limit * steps) return infinite;
    std::swap(row, next);
  }
  return row.back() / steps;
}

std::vector<CharacterMatch> GlyphMatcher::match(std::span<const StrokePoint> points, std::string_view text,
                                                std::span<const std::int32_t> character_of) const {
  std::vector<std::vector<PenStroke>> drawn = cut(points, text.size(), character_of);
  const Frame frame(drawn, text);
  std::vector<CharacterMatch> matches;
  for (std::size_t index = 0; index < text.size(); ++index) {
    if (text[index] == ' ') continue;
    CharacterMatch best{.written = text[index], .distance = infinite};
    for (PenStroke& stroke : drawn[index])
      for (PenPosition& at : stroke) at = {at.x / frame.size, (at.y - frame.base) / frame.size};
    if (const Line line = line_of(drawn[index]); !line.empty())
      for (const Template& each : templates_)
        if (const double here = distance(line, each.line, best.distance); here < best.distance)
          best.distance = here, best.nearest = each.character;
    matches.push_back(best);
  }
  return matches;
}

}  // namespace cogwheel
