#include "cogwheel/tasks/handwriting/handwriting_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/handwriting/lines_to_write.h"
#include "cogwheel/tasks/handwriting/stroke_font.h"

namespace cogwheel::tasks::handwriting {
namespace {

StrokeSequence in_style(const HandwritingStyle& style, std::string_view text = "nil Axle") {
  NumberedDraws draws(1, 0, 0);
  return write_by_hand(text, style, draws);
}

PenPosition extent(const StrokeSequence& sequence) {
  PenPosition low{0, 0}, high{0, 0};
  for (const PenStroke& stroke : strokes_of(sequence.points))
    for (const PenPosition& at : stroke) {
      low = {std::min(low.x, at.x), std::min(low.y, at.y)};
      high = {std::max(high.x, at.x), std::max(high.y, at.y)};
    }
  return {high.x - low.x, high.y - low.y};
}

std::int64_t lifts(const StrokeSequence& sequence) {
  return std::count_if(sequence.points.begin(), sequence.points.end(), [](const auto& point) { return point.ends; });
}

TEST(StrokeFont, HasAGlyphForEveryCharacterThatAsciiPrints) {
  ASSERT_EQ(stroke_font().size(), 95u);
  for (std::size_t index = 0; index < 95; ++index) {
    const Glyph& glyph = stroke_font()[index];
    EXPECT_EQ(glyph.character, static_cast<char>(' ' + index));
    EXPECT_EQ(glyph.strokes.empty(), index == 0);
    EXPECT_GT(glyph.advance, 0.2);
    for (const PenStroke& stroke : glyph.strokes)
      for (const PenPosition& at : stroke) {
        EXPECT_GE(at.x, -0.1) << glyph.character;
        EXPECT_LT(at.x, glyph.advance) << glyph.character;
        EXPECT_GE(at.y, -1.9) << glyph.character;
        EXPECT_LE(at.y, 0.7) << glyph.character;
      }
  }
  EXPECT_EQ(glyph_or_null(U'é'), nullptr);
  EXPECT_EQ(glyph_or_null(U'\n'), nullptr);
  EXPECT_EQ(glyph_or_null(0x7f), nullptr);
}

TEST(StrokeFont, LinesGoThroughTheirPositions) {
  const std::vector<PenPosition> positions{{0, 0}, {1, 1}, {1, 1}, {3, 1}, {3, 4}};
  const PenStroke line = smooth_line(positions, 4);
  ASSERT_EQ(line.size(), 13u);       // nothing between the two that make a corner
  EXPECT_DOUBLE_EQ(line[2].x, 0.5);  // straight up to the corner
  EXPECT_DOUBLE_EQ(line[2].y, 0.5);
  EXPECT_DOUBLE_EQ(line[8].x, 3);
  EXPECT_DOUBLE_EQ(line[8].y, 1);
  EXPECT_LT(line[7].y, 1);  // round the bend
  const PenStroke even = evenly_spaced(std::vector<PenPosition>{{0, 0}, {1, 0}, {1, 2}}, 0.7);
  ASSERT_EQ(even.size(), 5u);
  EXPECT_DOUBLE_EQ(even[1].x, 0.75);
  EXPECT_DOUBLE_EQ(even[2].y, 0.5);
  EXPECT_DOUBLE_EQ(even[4].y, 2);
  EXPECT_EQ(evenly_spaced(std::vector<PenPosition>{{2, 3}}, 1).size(), 1u);
}

// Recorded: the same bits on every machine and with every compiler.
TEST(Handwriting, FollowsFromSeedAndNumber) {
  Sha256 hash;
  for (std::uint64_t number = 0; number < 40; ++number) {
    NumberedDraws draws(5, 0, number);
    const std::string line = LinesToWrite(24).line(draws, DataPart::training);
    const StrokeSequence sequence = write_by_hand(line, 5, number);
    EXPECT_EQ(sequence.points, write_by_hand(line, 5, number).points);
    EXPECT_NE(sequence.points, write_by_hand(line, 6, number).points);
    hash.add(line);
    for (const StrokePoint& point : sequence.points)
      hash.add(number_text(static_cast<double>(point.dx)) + "," + number_text(static_cast<double>(point.dy)) +
               (point.ends ? "." : ";"));
  }
  EXPECT_EQ(hash.digits(), "d6a84f10e01a7cf49e021254bedc7f78cbdd5fc15aa612ed7e0a89aff4a32cb1");
}

TEST(Handwriting, HasTheStyleAskedFor) {
  const StrokeSequence plain = in_style({});
  const PenPosition size = extent(plain);
  EXPECT_NEAR(size.y, 1.6, 0.01);  // from the base line to the top of an l
  EXPECT_NEAR(extent(in_style({.size = 2})).x, 2 * size.x, 0.01);
  EXPECT_NEAR(extent(in_style({.size = 2})).y, 2 * size.y, 0.01);
  EXPECT_NEAR(extent(in_style({.width = 1.5})).x, 1.5 * size.x, 0.01);
  EXPECT_NEAR(extent(in_style({.width = 1.5})).y, size.y, 0.01);
  const auto points = [](const StrokeSequence& sequence) { return static_cast<double>(sequence.points.size()); };
  EXPECT_NEAR(points(in_style({.speed = 14})) / points(plain), 4, 0.5);
  // Every point of a slanted line is moved by its own height.
  const auto upright = strokes_of(plain.points), slanted = strokes_of(in_style({.slant = 0.5}).points);
  const PenPosition first = upright[0][0];
  for (std::size_t stroke = 0; stroke < upright.size(); ++stroke)
    for (std::size_t index = 0; index < upright[stroke].size(); ++index)
      EXPECT_NEAR(slanted[stroke][index].x, upright[stroke][index].x - 0.5 * (upright[stroke][index].y - first.y),
                  1e-4);
  // Joined letters are drawn in one stroke, but for those that cannot be.
  EXPECT_EQ(lifts(in_style({}, "mummy")), 5);
  EXPECT_EQ(lifts(in_style({.joins = 1}, "mummy")), 1);
  EXPECT_EQ(lifts(in_style({.joins = 1}, "Hi")), 5);
  EXPECT_NE(in_style({.jitter = 0.02}).points, plain.points);
}

TEST(Handwriting, KnowsWhereEachCharacterBegins) {
  for (const double joins : {0.0, 1.0}) {
    const StrokeSequence sequence = in_style({.joins = joins}, "am in: ");
    const auto& starts = sequence.starts;
    ASSERT_EQ(starts.size(), 8u);
    EXPECT_EQ(starts.front(), 0);
    EXPECT_EQ(starts.back(), std::ssize(sequence.points));
    EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
    EXPECT_EQ(starts[2], starts[3]);  // a space has no points
    EXPECT_EQ(starts[6], starts[7]);
    for (const std::size_t index : {0u, 1u, 3u, 4u, 5u}) EXPECT_LT(starts[index], starts[index + 1]) << index;
    // A join is within a stroke, other characters begin with one.
    const auto before = [&](std::size_t index) { return sequence.points[static_cast<std::size_t>(starts[index] - 1)]; };
    EXPECT_EQ(before(1).ends, joins == 0);
    EXPECT_TRUE(before(3).ends);
    EXPECT_TRUE(before(5).ends);
  }
  EXPECT_TRUE(in_style({}, "").points.empty());
  EXPECT_EQ(in_style({}, "  ").starts, (std::vector<std::int32_t>{0, 0, 0}));
}

TEST(Handwriting, RefusesCharactersThatTheFontLacks) {
  const auto refusal = [](std::string_view text) {
    try {
      write_by_hand(text, 1, 1);
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string start =
      "text to write: expected characters of the built-in handwriting, a space to ~ of ASCII, got ";
  EXPECT_EQ(refusal("caf\xc3\xa9"), start + "'é' (U+00E9) at byte 3");
  EXPECT_EQ(refusal("a\xff"), start + "byte 0xFF at offset 1");
  EXPECT_EQ(refusal(std::string_view("a\0", 2)), start + "byte 0x00 at offset 1");
}

TEST(LinesToWrite, PartsShareNoWord) {
  const LinesToWrite lines(24);
  std::map<DataPart, std::set<std::string>> words;
  std::set<char> met;
  for (const DataPart part : {DataPart::training, DataPart::held_out, DataPart::tuning})
    for (std::uint64_t number = 0; number < 1500; ++number) {
      NumberedDraws draws(3, static_cast<std::uint32_t>(part), number);
      const std::string line = lines.line(draws, part);
      EXPECT_GE(line.size(), 1u);
      EXPECT_LE(line.size(), 24u);
      met.insert(line.begin(), line.end());
      std::string word;
      for (const char each : line + " ") {
        if (std::isalnum(static_cast<unsigned char>(each)) != 0) {
          word += static_cast<char>(std::tolower(each));
        } else if (each != '\'') {  // the ' of 's ends a word, and the s is no word
          words[part].insert(word);
          word.clear();
        } else {
          words[part].insert(word);
          word = " ";
        }
      }
      NumberedDraws more(4, static_cast<std::uint32_t>(part), number);
      words[part].insert(word_to_write(more, part));
    }
  EXPECT_EQ(std::string(met.begin(), met.end()), lines.characters());
  for (auto& [part, own] : words)
    std::erase_if(own, [](const std::string& word) { return word.empty() || word[0] == ' '; });
  EXPECT_GT(words[DataPart::training].size(), 1000u);
  for (const auto& [part, own] : words)
    for (const auto& [other, others] : words)
      for (const std::string& word : own) EXPECT_TRUE(part == other || !others.contains(word)) << word;
}

TEST(LinesToWrite, TakeWordsOfATextInOrder) {
  std::string text;
  for (int word = 0; word < 100; ++word) text += "w" + std::to_string(word) + (word % 7 == 0 ? "\n" : "\t ");
  const LinesToWrite lines(text + std::string(50, 'x'), "my.txt", 11);
  EXPECT_EQ(lines.characters(), " 0123456789w");  // the long word does not fit
  std::set<int> firsts;
  for (std::uint64_t number = 0; number < 300; ++number) {
    NumberedDraws draws(3, 9, number);
    const std::string line = lines.line(draws, DataPart::held_out);
    const int first = std::stoi(line.substr(1, 2));
    firsts.insert(first);
    if (first >= 98) continue;
    const auto word = [&](int after) { return "w" + std::to_string(first + after); };
    EXPECT_EQ(line, word(0) + " " + word(1) + " " + word(2));
  }
  EXPECT_EQ(firsts.size(), 10u);
  EXPECT_EQ(*firsts.begin(), 90);
  EXPECT_THROW(LinesToWrite("a few words", "my.txt", 11), Error);
  EXPECT_THROW(LinesToWrite(text + "\xc3\xa9", "my.txt", 11), Error);
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
