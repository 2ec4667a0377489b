#include "cogwheel/tasks/handwriting/strokes.h"

#include <array>
#include <cmath>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"

namespace cogwheel::tasks::handwriting {
namespace {

constexpr double largest_coordinate = 1e6;

void expect_coordinate(std::string_view what, std::size_t stroke, std::size_t position, double value) {
  if (std::abs(value) <= largest_coordinate) return;  // false for NaN
  throw Error(expected_got(
      std::string(what) + ": stroke " + std::to_string(stroke + 1) + ", point " + std::to_string(position + 1),
      "coordinates of at most 1,000,000", number_text(value)));
}

}  // namespace

std::string content_of(const StrokeSequence& sequence) {
  Sha256 hash;
  for (const StrokePoint& point : sequence.points) {
    const std::array offsets{point.dx + 0.0F, point.dy + 0.0F};  // −0 is 0
    hash.add({reinterpret_cast<const char*>(offsets.data()), sizeof(offsets)});
    hash.add(point.ends ? "1" : "0");
  }
  return hash.digits();
}

StrokeSequence sequence_of(std::span<const PenStroke> strokes, std::string_view what) {
  StrokeSequence sequence;
  PenPosition last{0, 0};
  for (std::size_t stroke = 0; stroke < strokes.size(); ++stroke) {
    bool begun = false;
    for (std::size_t position = 0; position < strokes[stroke].size(); ++position) {
      const PenPosition here = strokes[stroke][position];
      expect_coordinate(what, stroke, position, here.x);
      expect_coordinate(what, stroke, position, here.y);
      if (sequence.points.empty()) last = here;
      const StrokePoint point{static_cast<float>(here.x - last.x), static_cast<float>(here.y - last.y), false};
      if (begun && point.dx == 0 && point.dy == 0) continue;
      sequence.points.push_back(point);
      last = here;
      begun = true;
    }
    if (begun) sequence.points.back().ends = true;
  }
  return sequence;
}

std::vector<PenStroke> strokes_of(std::span<const StrokePoint> points) {
  std::vector<PenStroke> strokes;
  PenPosition pen{0, 0};
  bool lifted = true;
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (index > 0) pen = {pen.x + static_cast<double>(points[index].dx), pen.y + static_cast<double>(points[index].dy)};
    if (lifted) strokes.emplace_back();
    strokes.back().push_back(pen);
    lifted = points[index].ends;
  }
  return strokes;
}

OffsetScale OffsetScale::of(std::span<const StrokeSequence> sequences) {
  double count = 0, sum_x = 0, sum_y = 0, squares_x = 0, squares_y = 0;
  const auto visit = [&](auto&& each) {
    for (const StrokeSequence& sequence : sequences)
      for (std::size_t index = 1; index < sequence.points.size(); ++index)
        each(static_cast<double>(sequence.points[index].dx), static_cast<double>(sequence.points[index].dy));
  };
  visit([&](double dx, double dy) { count += 1, sum_x += dx, sum_y += dy; });
  OffsetScale scale;
  if (count == 0) return scale;
  scale.mean_x = sum_x / count, scale.mean_y = sum_y / count;
  visit([&](double dx, double dy) {
    squares_x += (dx - scale.mean_x) * (dx - scale.mean_x);
    squares_y += (dy - scale.mean_y) * (dy - scale.mean_y);
  });
  if (squares_x > 0) scale.deviation_x = std::sqrt(squares_x / count);
  if (squares_y > 0) scale.deviation_y = std::sqrt(squares_y / count);
  return scale;
}

StrokePoint OffsetScale::normalized(const StrokePoint& point) const {
  return {static_cast<float>((static_cast<double>(point.dx) - mean_x) / deviation_x),
          static_cast<float>((static_cast<double>(point.dy) - mean_y) / deviation_y), point.ends};
}

StrokePoint OffsetScale::restored(const StrokePoint& point) const {
  return {static_cast<float>(static_cast<double>(point.dx) * deviation_x + mean_x),
          static_cast<float>(static_cast<double>(point.dy) * deviation_y + mean_y), point.ends};
}

}  // namespace cogwheel::tasks::handwriting
