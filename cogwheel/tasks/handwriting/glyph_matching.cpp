#include "cogwheel/tasks/handwriting/glyph_matching.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/tasks/handwriting/stroke_font.h"

namespace cogwheel::tasks::handwriting {
constexpr double infinite_distance = std::numeric_limits<double>::infinity();
constexpr std::size_t reach_of_cuts = 4;  // points

constexpr std::array<double, 3> slants{-0.05, 0.1, 0.25};

// A character that has points: which of the text, and the points from `begin` to before `end`.
struct CutCharacter {
  std::size_t index, begin, end;
};

// A drawing in x-heights of the font, from its base line.
class CutDrawing {
 public:
  explicit CutDrawing(std::span<const StrokePoint> points) : points_(points) {
    PenPosition pen{0, 0};
    for (const StrokePoint& point : points) {
      if (!positions_.empty()) pen = {pen.x + static_cast<double>(point.dx), pen.y + static_cast<double>(point.dy)};
      positions_.push_back(pen);
    }
  }

  std::size_t size() const { return positions_.size(); }
  bool lifted_before(std::size_t point) const { return points_[point - 1].ends; }

  std::vector<PenStroke> strokes(std::size_t begin, std::size_t end) const {
    std::vector<PenStroke> strokes;
    for (std::size_t point = begin; point < end; ++point) {
      if (point == begin || lifted_before(point)) strokes.emplace_back();
      strokes.back().push_back(positions_[point]);
    }
    return strokes;
  }

  // y = size · y of the font + base, by least squares over the tops and bottoms of all characters; then moved there.
  void fit(std::span<const CutCharacter> characters, std::string_view text) {
    double count = 0, sum = 0, sum_drawn = 0, squares = 0, products = 0;
    const auto add = [&](double font, double drawn) {
      count += 1, sum += font, sum_drawn += drawn, squares += font * font, products += font * drawn;
    };
    for (const CutCharacter& each : characters) {
      const Glyph* glyph = glyph_or_null(static_cast<unsigned char>(text[each.index]));
      if (glyph == nullptr || glyph->strokes.empty()) continue;
      const auto [font_top, font_bottom] = heights(glyph->strokes);
      const auto [top, bottom] = heights(strokes(each.begin, each.end));
      add(font_top, top), add(font_bottom, bottom);
    }
    if (count == 0) return;
    const double spread = squares - sum * sum / count;
    const double fitted = spread > 0.01 ? (products - sum * sum_drawn / count) / spread : 1;
    // A drawing that is nothing like the text may fit upside down.
    const double size = fitted > 0 ? fitted : 1, base = (sum_drawn - size * sum) / count;
    for (PenPosition& at : positions_) at = {at.x / size, (at.y - base) / size};
  }

 private:
  // y points downwards.
  static std::pair<double, double> heights(const std::vector<PenStroke>& strokes) {
    double top = infinite_distance, bottom = -infinite_distance;
    for (const PenStroke& stroke : strokes)
      for (const PenPosition& at : stroke) top = std::min(top, at.y), bottom = std::max(bottom, at.y);
    return {top, bottom};
  }

  std::span<const StrokePoint> points_;
  std::vector<PenPosition> positions_;
};

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
    for (std::size_t slant = 0; slant < templates_.size(); ++slant) {
      std::vector<PenStroke> strokes;
      for (const PenStroke& stroke : glyph->strokes) {
        strokes.push_back(evenly_spaced(stroke, 1 / 3.5));
        for (PenPosition& at : strokes.back()) at.x -= slants[slant] * at.y;
      }
      templates_[slant].push_back({character, line_of(strokes)});
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
  constexpr double turning = 0.2;  // what a line at right angles adds, in x-heights
  const auto cost = [](const Step& here, const Step& there) {
    const double x = here.x - there.x, y = here.y - there.y;
    const double cosine = here.direction_x * there.direction_x + here.direction_y * there.direction_y;
    return std::sqrt(x * x + y * y) + turning * (1 - cosine);
  };
  const double steps = static_cast<double>(a.size() + b.size()), most = limit * steps;
  // Every way takes the first step and the last.
  if (2 * cost(a.front(), b.front()) > most || cost(a.back(), b.back()) > most) return infinite_distance;
  std::vector<double> row(b.size() + 1, infinite_distance), next(b.size() + 1, infinite_distance);
  row[0] = 0;
  for (const Step& here : a) {
    double least = infinite_distance;
    next[0] = infinite_distance;
    for (std::size_t index = 0; index < b.size(); ++index) {
      const double step = cost(here, b[index]);
      next[index + 1] = std::min({row[index] + 2 * step, row[index + 1] + step, next[index] + step});
      least = std::min(least, next[index + 1]);
    }
    if (least > most) return infinite_distance;
    std::swap(row, next);
  }
  return row.back() / steps;
}

CharacterMatch GlyphMatcher::nearest(const Line& line, std::size_t slant) const {
  CharacterMatch best{.distance = infinite_distance};
  for (const Template& each : templates_[slant])
    if (const double here = distance(line, each.line, best.distance); here < best.distance)
      best.distance = here, best.nearest = each.character;
  return best;
}

std::size_t GlyphMatcher::nearest_slant(const CutDrawing& drawing, std::span<const CutCharacter> characters) const {
  std::array<double, slants.size()> sums{};
  for (std::size_t slant = 0; slant < slants.size(); ++slant)
    for (const CutCharacter& each : characters)
      sums[slant] += nearest(line_of(drawing.strokes(each.begin, each.end)), slant).distance;
  return static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
}

// The cuts between characters for which the sum of distances, each times the points it explains, is least: each cut in
// its turn, from the best ways to those before it.
void GlyphMatcher::move_cuts(const CutDrawing& drawing, std::size_t slant,
                             std::vector<CutCharacter>& characters) const {
  struct Way {
    std::size_t cut, before;  // `before`: which of the ways to the cut before
    double cost;
  };
  std::vector<std::vector<Way>> ways{{{0, 0, 0}}};
  for (std::size_t number = 0; number < characters.size(); ++number) {
    std::vector<Way> next;
    if (number + 1 == characters.size()) {
      next.push_back({drawing.size(), 0, infinite_distance});
    } else {
      const CutCharacter &here = characters[number], &after = characters[number + 1];
      const std::size_t low = here.end - std::min(reach_of_cuts, here.end - here.begin - 1);
      const std::size_t high = after.begin + std::min(reach_of_cuts, after.end - after.begin - 1);
      for (std::size_t cut = low; cut <= high; ++cut) next.push_back({cut, 0, infinite_distance});
    }
    for (Way& way : next)
      for (std::size_t before = 0; before < ways.back().size(); ++before) {
        const Way& from = ways.back()[before];
        if (from.cut >= way.cut) continue;
        const CharacterMatch match = nearest(line_of(drawing.strokes(from.cut, way.cut)), slant);
        const double cost = from.cost + match.distance * static_cast<double>(way.cut - from.cut);
        if (cost < way.cost) way.cost = cost, way.before = before;
      }
    ways.push_back(std::move(next));
  }
  std::size_t way = 0;
  for (std::size_t number = characters.size(); number > 0; --number) {
    characters[number - 1].end = ways[number][way].cut;
    way = ways[number][way].before;
    characters[number - 1].begin = ways[number - 1][way].cut;
  }
}

std::vector<CharacterMatch> GlyphMatcher::match(std::span<const StrokePoint> points, std::string_view text,
                                                std::span<const std::int32_t> character_of) const {
  // Attention that goes back for a few points gives as many points to each character.
  std::vector<std::int32_t> in_order(character_of.begin(), character_of.end());
  std::sort(in_order.begin(), in_order.end());
  std::vector<CutCharacter> characters;
  for (std::size_t begin = 0, end = 0; begin < in_order.size(); begin = end) {
    while (end < in_order.size() && in_order[end] == in_order[begin]) ++end;
    const auto index = static_cast<std::size_t>(in_order[begin]);
    if (text[index] != ' ') characters.push_back({index, begin, end});
  }
  CutDrawing drawing(points);
  std::size_t slant = 0;
  for (int round = 0; round < 2 && !characters.empty(); ++round) {
    drawing.fit(characters, text);
    slant = nearest_slant(drawing, characters);
    move_cuts(drawing, slant, characters);
  }
  std::vector<CharacterMatch> matches;
  std::size_t next = 0;
  for (std::size_t index = 0; index < text.size(); ++index) {
    if (text[index] == ' ') continue;
    CharacterMatch match{.distance = infinite_distance};
    if (next < characters.size() && characters[next].index == index) {
      match = nearest(line_of(drawing.strokes(characters[next].begin, characters[next].end)), slant);
      ++next;
    }
    match.written = text[index];
    matches.push_back(match);
  }
  return matches;
}

}  // namespace cogwheel::tasks::handwriting
