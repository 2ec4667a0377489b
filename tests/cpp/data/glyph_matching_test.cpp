#include "cogwheel/data/glyph_matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cogwheel/data/handwriting.h"
#include "cogwheel/data/lines_to_write.h"

namespace cogwheel {
namespace {

struct Count {
  double right = 0, all = 0;
  void add(const std::vector<CharacterMatch>& matches) {
    for (const CharacterMatch& match : matches) all += 1, right += match.matches() ? 1 : 0;
  }
  double share() const { return right / all; }
};

// What is to be expected of a perfect model: 99.8 % of the characters of lines, 99.6 % of those of words.
TEST(GlyphMatcher, ReadsTrueHandwriting) {
  const LinesToWrite lines(24);
  const GlyphMatcher matcher(lines.characters());
  Count of_lines, of_words, of_shifted;
  for (std::uint64_t number = 0; number < 40; ++number) {
    NumberedDraws draws(1, 7, number);
    const StrokeSequence line = write_by_hand(lines.line(draws, DataPart::held_out), 2, number);
    of_lines.add(matcher.match(line.points, line.text, written_characters(line.starts)));
    const StrokeSequence word = write_by_hand(word_to_write(draws, DataPart::held_out), 3, number);
    of_words.add(matcher.match(word.points, word.text, written_characters(word.starts)));
    // Cut in the wrong places, strokes are not read: the matcher looks at them.
    std::vector<std::int32_t> shifted = written_characters(line.starts);
    std::rotate(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(shifted.size() / 2), shifted.end());
    of_shifted.add(matcher.match(line.points, line.text, shifted));
  }
  RecordProperty("lines", std::to_string(of_lines.share()));
  RecordProperty("words", std::to_string(of_words.share()));
  EXPECT_GT(of_lines.all, 400);
  EXPECT_GE(of_lines.share(), 0.95);
  EXPECT_GE(of_words.share(), 0.95);
  EXPECT_LT(of_shifted.share(), 0.35);
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
}  // namespace cogwheel
