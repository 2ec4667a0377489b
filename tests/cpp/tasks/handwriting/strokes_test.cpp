#include "cogwheel/tasks/handwriting/strokes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::tasks::handwriting {
namespace {

std::string refusal_of(const std::vector<PenStroke>& strokes) {
  try {
    sequence_of(strokes, "line");
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Strokes, AreOffsetsFromThePointBefore) {
  const std::vector<PenStroke> strokes{{{10, 20}, {11, 22}, {11, 22}, {12, 22}}, {}, {{5, 5}}};
  const StrokeSequence sequence = sequence_of(strokes, "line");
  const std::vector<StrokePoint> expected{{0, 0, false}, {1, 2, false}, {1, 0, true}, {-7, -17, true}};
  EXPECT_EQ(sequence.points, expected);  // the repeated position and the empty stroke draw nothing
  const auto again = strokes_of(sequence.points);
  ASSERT_EQ(again.size(), 2u);
  ASSERT_EQ(again[0].size(), 3u);
  EXPECT_EQ(again[0][2].x, 2);
  EXPECT_EQ(again[1][0].x, -5);
  EXPECT_EQ(again[1][0].y, -15);
}

TEST(Strokes, OfNothingAreNothing) {
  EXPECT_TRUE(sequence_of({}, "line").points.empty());
  EXPECT_TRUE(sequence_of(std::vector<PenStroke>{{}, {}}, "line").points.empty());
  EXPECT_TRUE(strokes_of({}).empty());
  EXPECT_EQ(OffsetScale::of({}), OffsetScale());
}

TEST(Strokes, RefuseWhatIsNoPlace) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal_of({{{0, 0}}, {{1, 1}, {nan, 0}}}),
            "line: stroke 2, point 2: expected coordinates of at most 1,000,000, got nan");
  EXPECT_EQ(refusal_of({{{0, -std::numeric_limits<double>::infinity()}}}),
            "line: stroke 1, point 1: expected coordinates of at most 1,000,000, got -inf");
  EXPECT_EQ(refusal_of({{{1e300, 0}}}),
            "line: stroke 1, point 1: expected coordinates of at most 1,000,000, got 1e+300");
}

TEST(OffsetScale, IsThatOfAllOffsetsButTheFirst) {
  std::vector<StrokeSequence> sequences(2);
  sequences[0].points = {{0, 0, false}, {1, 5, false}, {3, 5, true}};
  sequences[1].points = {{0, 0, false}, {5, 5, true}};
  const OffsetScale scale = OffsetScale::of(sequences);
  EXPECT_DOUBLE_EQ(scale.mean_x, 3);
  EXPECT_DOUBLE_EQ(scale.deviation_x, std::sqrt(8.0 / 3));
  EXPECT_DOUBLE_EQ(scale.mean_y, 5);
  EXPECT_DOUBLE_EQ(scale.deviation_y, 1);  // all alike
  const StrokePoint point{-2, 7, true}, back = scale.restored(scale.normalized(point));
  EXPECT_NEAR(back.dx, point.dx, 1e-6);
  EXPECT_NEAR(back.dy, point.dy, 1e-6);
  EXPECT_TRUE(back.ends);
}

TEST(NumberedDraws, HaveTheirDistributions) {
  NumberedDraws draws(1, 2, 3), again(1, 2, 3), other(1, 2, 4);
  double sum = 0, squares = 0;
  std::vector<int> counts(5);
  bool differs = false;
  for (int index = 0; index < 4000; ++index) {
    const double value = draws.normal();
    EXPECT_EQ(value, again.normal());
    differs = differs || value != other.normal();
    sum += value, squares += value * value;
    ++counts[draws.below(5)];
    again.below(5);
  }
  EXPECT_TRUE(differs);
  EXPECT_NEAR(sum / 4000, 0, 0.06);
  EXPECT_NEAR(squares / 4000, 1, 0.08);
  for (const int count : counts) EXPECT_NEAR(count, 800, 110);
}

TEST(KeyedOrder, MeetsEachOnce) {
  for (const std::uint64_t count : {1u, 2u, 5u, 16u, 17u, 1000u}) {
    std::vector<int> met(count);
    bool moved = count < 5, another = count < 5;
    for (std::uint64_t place = 0; place < count; ++place) {
      const std::uint64_t at = KeyedOrder(count, 7, 0).at(place);
      ASSERT_LT(at, count);
      ++met[at];
      moved = moved || at != place;
      another = another || at != KeyedOrder(count, 7, 1).at(place);
    }
    EXPECT_EQ(met, std::vector<int>(count, 1));
    EXPECT_TRUE(moved && another) << count;
  }
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
