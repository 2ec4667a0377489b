#include "cogwheel/tasks/handwriting/handwriting_data.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cogwheel/tasks/handwriting/stroke_font.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr std::uint32_t handwriting_stream = stream_named("hand");

// What a pen does with a text: where it goes, in units of the page, and which character each point belongs to.
class Pen {
 public:
  Pen(const HandwritingStyle& style, NumberedDraws& draws) : style_(style), draws_(draws) {}

  void write(const Glyph& glyph, std::int32_t character) {
    if (glyph.strokes.empty()) {
      line_x_ += glyph.advance * style_.width * (1 + 2 * style_.jitter * draws_.normal());
      joinable_ = false;
      return;
    }
    scale_x_ = style_.width * (1 + 2 * style_.jitter * draws_.normal());
    scale_y_ = 1 + 2 * style_.jitter * draws_.normal();
    shift_y_ = style_.jitter * draws_.normal();
    for (std::size_t index = 0; index < glyph.strokes.size(); ++index) {
      const PenStroke line = placed(glyph.strokes[index]);
      const bool join = index == 0 && joinable_ && glyph.enters && draws_.with_probability(style_.joins);
      if (join) join_to(line.front(), character);
      draw(evenly_spaced(line, 1 / style_.speed), character, join);
    }
    joinable_ = glyph.leaves;
    line_x_ += glyph.advance * scale_x_;
  }

  StrokeSequence finish(std::string_view text, std::int32_t characters) {
    StrokeSequence sequence;
    sequence.text = text;
    for (std::size_t index = 0; index < positions_.size(); ++index) {
      const Position &at = positions_[index], &before = positions_[index == 0 ? 0 : index - 1];
      sequence.points.push_back({static_cast<float>(at.x - before.x), static_cast<float>(at.y - before.y), at.ends});
    }
    std::size_t point = 0;
    for (std::int32_t character = 0; character <= characters; ++character) {
      while (point < positions_.size() && positions_[point].character < character) ++point;
      sequence.starts.push_back(static_cast<std::int32_t>(point));
    }
    return sequence;
  }

 private:
  struct Position {
    double x, y;
    std::int32_t character;
    bool ends;
  };

  // From the grid of the glyph to the line of text, still upright and of size 1.
  PenStroke placed(PenStroke line) const {
    for (PenPosition& at : line) at = {line_x_ + at.x * scale_x_, shift_y_ + at.y * scale_y_};
    return line;
  }

  // From the end of the last letter to the start of this one: down to the right, and up again.
  void join_to(const PenPosition& to, std::int32_t character) {
    positions_.back().ends = false;
    const PenPosition start = here_;
    const double low = std::max(start.y, to.y);
    const PenPosition middle{(start.x + to.x) / 2, low + (std::min(start.y, to.y) - low) / 3};
    const std::array<PenPosition, 3> line{start, middle, to};
    const PenStroke points = evenly_spaced(smooth_line(line, 8), 1 / style_.speed);
    for (std::size_t index = 1; index < points.size(); ++index)
      add(points[index], 2 * index < points.size() ? character - 1 : character);
  }

  // Of a line to which a join has led the first position is there already.
  void draw(const PenStroke& line, std::int32_t character, bool joined) {
    for (std::size_t index = joined ? 1 : 0; index < line.size(); ++index) add(line[index], character);
    positions_.back().ends = true;
    here_ = line.back();
  }

  void add(const PenPosition& at, std::int32_t character) {
    const double x = at.x + style_.jitter * draws_.normal(), y = at.y + style_.jitter * draws_.normal();
    positions_.push_back({style_.size * (x - style_.slant * y), style_.size * y, character, false});
  }

  const HandwritingStyle& style_;
  NumberedDraws& draws_;
  std::vector<Position> positions_;
  PenPosition here_{0, 0};  // the end of the last letter, before jitter
  double line_x_ = 0, scale_x_ = 1, scale_y_ = 1, shift_y_ = 0;
  bool joinable_ = false;
};

}  // namespace

HandwritingStyle drawn_style(NumberedDraws& draws) {
  HandwritingStyle style;
  style.slant = draws.between(-0.1, 0.35);
  style.size = draws.between(0.85, 1.15);
  style.width = draws.between(0.85, 1.1);
  style.speed = draws.between(3, 4);
  style.jitter = draws.between(0.01, 0.025);
  style.joins = draws.with_probability(0.5) ? draws.between(0.5, 1) : 0;
  return style;
}

StrokeSequence write_by_hand(std::string_view text, const HandwritingStyle& style, NumberedDraws& draws) {
  expect_in_font(text, "text to write");
  Pen pen(style, draws);
  std::int32_t character = 0;
  for (const char each : text) pen.write(*glyph_or_null(static_cast<unsigned char>(each)), character++);
  return pen.finish(text, character);
}

StrokeSequence write_by_hand(std::string_view text, std::uint64_t seed, std::uint64_t number) {
  NumberedDraws draws(seed, handwriting_stream, number);
  const HandwritingStyle style = drawn_style(draws);
  return write_by_hand(text, style, draws);
}

}  // namespace cogwheel::tasks::handwriting
