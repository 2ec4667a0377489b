// How messages print shapes and times.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel {
namespace {

TEST(ShapeText, IsInBrackets) {
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{7}), "[7]");
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{}), "[]");
}

TEST(DurationText, IsRoundedToWhatMatters) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(-5), "0 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(59.7), "1 min 0 s");
  EXPECT_EQ(duration_text(372), "6 min 12 s");
  EXPECT_EQ(duration_text(3599.5), "1 h 0 min");
  EXPECT_EQ(duration_text(2 * 3600 + 5 * 60 + 59), "2 h 5 min");
}

}  // namespace
}  // namespace cogwheel
