#include "cogwheel/tasks/handwriting/glyph_matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cogwheel/tasks/handwriting/handwriting_data.h"
#include "cogwheel/tasks/handwriting/lines_to_write.h"

namespace cogwheel::tasks::handwriting {
namespace {

struct Count {
  double right = 0, all = 0;
  void add(const std::vector<CharacterMatch>& matches) {
    for (const CharacterMatch& match : matches) all += 1, right += match.matches() ? 1 : 0;
  }
  double share() const { return right / all; }
};

// The same cuts, some points later.
std::vector<std::int32_t> moved_cuts(const StrokeSequence& sequence, std::int32_t by) {
  std::vector<std::int32_t> starts = sequence.starts;
  for (std::size_t index = 1; index + 1 < starts.size(); ++index)
    starts[index] = std::clamp(starts[index] + by, starts[index - 1], starts.back());
  return written_characters(starts);
}

// A perfect model would reach this. See docs/handwriting.md for more of them.
TEST(GlyphMatcher, ReadsTrueHandwriting) {
  const LinesToWrite lines(16);
  const GlyphMatcher matcher(lines.characters());
  Count of_lines, elsewhere;
  for (std::uint64_t number = 0; number < 6; ++number) {
    NumberedDraws draws(1, 7, number);
    const StrokeSequence line = write_by_hand(lines.line(draws, DataPart::held_out), 2, number);
    of_lines.add(matcher.match(line.points, line.text, written_characters(line.starts)));
    // Cut in quite other places, strokes are not read: it is they that are looked at.
    if (number < 2) elsewhere.add(matcher.match(line.points, line.text, moved_cuts(line, 15)));
  }
  RecordProperty("lines", std::to_string(of_lines.share()));
  EXPECT_GT(of_lines.all, 40);
  EXPECT_GE(of_lines.share(), 0.95);
  EXPECT_LT(elsewhere.share(), 0.4);
}

TEST(GlyphMatcher, MovesCutsThatAreALittleOff) {
  const GlyphMatcher matcher("abcdefghijklmnopqrstuvwxyz");
  for (const std::int32_t by : {-4, 2}) {
    Count words;
    for (std::uint64_t number = 0; number < 6; ++number) {
      NumberedDraws draws(1, 8, number);
      const StrokeSequence word = write_by_hand(word_to_write(draws, DataPart::held_out), 3, number);
      words.add(matcher.match(word.points, word.text, moved_cuts(word, by)));
    }
    EXPECT_GE(words.share(), 0.95) << by;
  }
}

TEST(GlyphMatcher, DependsOnNeitherPlaceNorSize) {
  const GlyphMatcher matcher("oOcC.,'");
  StrokeSequence sequence = write_by_hand("o,O'.cC", 1, 1);
  const auto own = matcher.match(sequence.points, sequence.text, written_characters(sequence.starts));
  for (const CharacterMatch& match : own) EXPECT_TRUE(match.matches()) << match.written << " as " << match.nearest;
  for (StrokePoint& point : sequence.points) point.dx *= 3, point.dy *= 3;
  const auto large = matcher.match(sequence.points, sequence.text, written_characters(sequence.starts));
  ASSERT_EQ(large.size(), own.size());
  for (std::size_t index = 0; index < own.size(); ++index) {
    EXPECT_EQ(large[index].nearest, own[index].nearest);
    EXPECT_NEAR(large[index].distance, own[index].distance, 1e-5);
  }
}

TEST(GlyphMatcher, CountsCharactersWithoutStrokesAsWrong) {
  const GlyphMatcher matcher("abc");
  const StrokeSequence sequence = write_by_hand("a bc", 1, 1);
  std::vector<std::int32_t> all_first(sequence.points.size(), 0);
  const auto matches = matcher.match(sequence.points, sequence.text, all_first);
  ASSERT_EQ(matches.size(), 3u);  // none for the space
  EXPECT_EQ(matches[1].nearest, 0);
  EXPECT_FALSE(matches[1].matches());
  EXPECT_FALSE(matches[2].matches());
  EXPECT_TRUE(matcher.match({}, "", {}).empty());
  EXPECT_FALSE(matcher.match({}, "a", {})[0].matches());
}

TEST(AttendedCharacters, AreThoseOfTheLargestWeights) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> window{0,    0,    0,    0,   // nothing yet: the first
                                  0.1F, 0.5F, 0.5F, 9,   // the first of equals; the end is not asked
                                  0,    0,    0,    2,   // past the text: the one before
                                  0,    nan,  0.1F, 0};  // a weight that is none is no largest one
  EXPECT_EQ(attended_characters(window, 3), (std::vector<std::int32_t>{0, 1, 1, 2}));
  EXPECT_TRUE(attended_characters({}, 3).empty());
  EXPECT_TRUE(attended_characters({}, 0).empty());
  EXPECT_EQ(written_characters(std::vector<std::int32_t>{0, 2, 2, 3}), (std::vector<std::int32_t>{0, 0, 2}));
  EXPECT_TRUE(written_characters({}).empty());
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
