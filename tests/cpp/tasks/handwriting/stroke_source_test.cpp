#include "cogwheel/tasks/handwriting/stroke_source.h"

#include <gtest/gtest.h>

#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/handwriting/stroke_batches.h"

namespace cogwheel::tasks::handwriting {
namespace {

// Sequences of 2, 3, … points, three of each origin, whose text is their number.
StrokeSet example_set(int count) {
  StrokeSet set;
  set.name = "example";
  set.sha256 = "1";
  for (int number = 0; number < count; ++number) {
    StrokeSequence sequence;
    for (int point = 0; point < number + 2; ++point)
      sequence.points.push_back({static_cast<float>(point % 3), static_cast<float>(number), point % 5 == 4});
    sequence.points.front() = {};
    sequence.points.back().ends = true;
    sequence.text = std::to_string(number);
    set.sequences.push_back(sequence);
    set.origins.push_back("form " + std::to_string(number / 3));
  }
  return set;
}

std::set<std::string> texts(std::span<const StrokeSequence> sequences) {
  std::set<std::string> all;
  for (const StrokeSequence& sequence : sequences) all.insert(sequence.text);
  return all;
}

TEST(StrokesOfFiles, HoldOutWholeOrigins) {
  const auto source = strokes_of_files(example_set(90));
  EXPECT_EQ(source->held_out().size(), 9u);
  EXPECT_EQ(source->training_sequences(), 81);
  std::set<int> origins;
  for (const StrokeSequence& sequence : source->held_out()) origins.insert(std::stoi(sequence.text) / 3);
  EXPECT_EQ(origins.size(), 3u);
  // An origin less: the others stay where they are.
  StrokeSet less = example_set(90);
  const std::string gone = source->training_sequence(1, 0).text;
  for (std::size_t index = less.sequences.size(); index-- > 0;)
    if (std::stoi(less.sequences[index].text) / 3 == std::stoi(gone) / 3) {
      less.sequences.erase(less.sequences.begin() + static_cast<std::ptrdiff_t>(index));
      less.origins.erase(less.origins.begin() + static_cast<std::ptrdiff_t>(index));
    }
  EXPECT_EQ(texts(strokes_of_files(std::move(less))->held_out()), texts(source->held_out()));
  // For tuning: out of what was to be trained on.
  const auto tuning = source->for_tuning();
  EXPECT_EQ(tuning->training_sequences() + std::ssize(tuning->held_out()), 81);
  for (const std::string& text : texts(tuning->held_out())) EXPECT_FALSE(texts(source->held_out()).contains(text));
  EXPECT_EQ(tuning->alphabet(), source->alphabet());
}

// Forms that hold a line of another are on one side with it; drawings are told apart by what they draw.
TEST(StrokesOfFiles, EqualStrokesAreOnOneSide) {
  StrokeSet copies = example_set(300);
  for (std::size_t index = 150; index < 300; ++index)
    copies.sequences[index].points = copies.sequences[index - 150].points;
  const auto source = strokes_of_files(copies);
  EXPECT_EQ(source->held_out().size(), 30u);
  std::set<std::string> held_out;
  for (const StrokeSequence& sequence : source->held_out()) held_out.insert(content_of(sequence));
  for (std::int64_t place = 0; place < source->training_sequences(); ++place)
    EXPECT_FALSE(held_out.contains(content_of(source->training_sequence(1, static_cast<std::uint64_t>(place)))));
  // A run is told apart from one of the same files that held out others.
  EXPECT_NE(source->sha256(), copies.sha256);
  StrokeSet equal = example_set(4);
  for (StrokeSequence& sequence : equal.sequences) sequence.points = equal.sequences[0].points;
  EXPECT_THROW(strokes_of_files(std::move(equal)), Error);
}

TEST(StrokesOfFiles, MeetEachSequenceOncePerEpoch) {
  const auto source = strokes_of_files(example_set(30));
  const auto epoch = [&](std::uint64_t seed, std::uint64_t number) {
    std::vector<std::string> met;
    const auto count = static_cast<std::uint64_t>(source->training_sequences());
    for (std::uint64_t place = 0; place < count; ++place)
      met.push_back(source->training_sequence(seed, number * count + place).text);
    EXPECT_EQ(std::set<std::string>(met.begin(), met.end()).size(), count);
    return met;
  };
  EXPECT_EQ(epoch(1, 0), epoch(1, 0));
  EXPECT_NE(epoch(1, 0), epoch(1, 1));
  EXPECT_NE(epoch(1, 0), epoch(2, 0));
}

TEST(StrokesOfFiles, RefuseWhatCannotBeSplit) {
  EXPECT_THROW(strokes_of_files(example_set(1)), Error);
  const auto two = strokes_of_files(example_set(2));  // of one form
  EXPECT_EQ(two->held_out().size(), 1u);
  EXPECT_EQ(two->training_sequences(), 1);
  EXPECT_THROW(two->for_tuning(), Error);
  StrokeSet some = example_set(9);
  some.sequences[4].text = "";
  EXPECT_THROW(strokes_of_files(std::move(some)), Error);
  StrokeSet none = example_set(9);
  for (StrokeSequence& sequence : none.sequences) sequence.text = "";
  EXPECT_EQ(strokes_of_files(std::move(none))->alphabet(), nullptr);
}

TEST(StrokeBatch, IsPaddedAndNormalised) {
  StrokeSet set = example_set(90);
  const auto source = strokes_of_files(set);
  const std::vector<StrokeSequence> sequences{set.sequences[3], set.sequences[12]};
  const StrokeBatch made = stroke_batch(sequences, source->scale(), source->alphabet().get());
  EXPECT_EQ(made.points.sizes(), (std::vector<std::int64_t>{2, 14, 3}));
  EXPECT_EQ(made.lengths[0].item<std::int64_t>(), 5);
  EXPECT_EQ(made.lengths[1].item<std::int64_t>(), 14);
  EXPECT_EQ(made.characters.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(made.character_lengths[0].item<std::int64_t>(), 1);
  EXPECT_EQ(made.characters[0][0].item<std::int64_t>(), 3);  // the alphabet is 0 … 9
  EXPECT_EQ(made.characters[1][1].item<std::int64_t>(), 2);
  EXPECT_EQ(made.points[0].slice(0, 5).abs().sum().item<double>(), 0);
  for (std::int64_t point = 0; point < 14; ++point) {
    const StrokePoint expected = source->scale().normalized(set.sequences[12].points[static_cast<std::size_t>(point)]);
    EXPECT_EQ(made.points[1][point][0].item<float>(), expected.dx);
    EXPECT_EQ(made.points[1][point][1].item<float>(), expected.dy);
    EXPECT_EQ(made.points[1][point][2].item<float>(), expected.ends ? 1 : 0);
  }
  StrokeSequence foreign = set.sequences[3];
  foreign.text = "1é";
  try {
    stroke_batch({&foreign, 1}, source->scale(), source->alphabet().get());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'é' (U+00E9)"), std::string::npos) << error.what();
  }
  const StrokeBatch without = stroke_batch(sequences, source->scale(), nullptr);
  EXPECT_EQ(without.characters.sizes(), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(stroke_batch({}, source->scale(), nullptr).points.sizes(), (std::vector<std::int64_t>{0, 0, 3}));
}

TEST(StrokeBatches, FollowFromSeedAndStep) {
  const auto source = strokes_of_files(example_set(90));
  StrokeBatches batches(source, 1, 4, 8), again(source, 1, 4, 8), other(source, 2, 4, 8);
  std::multiset<std::int64_t> lengths, drawn;
  std::int64_t points = 0, padded = 0, differ = 0;
  for (std::int64_t step = 0; step < 16; ++step) {
    const StrokeBatch made = batches.at_step(step);
    for (std::int64_t row = 0; row < 4; ++row) lengths.insert(made.lengths[row].item<std::int64_t>());
    points += made.lengths.sum().item<std::int64_t>();
    padded += made.points.size(0) * made.points.size(1);
    if (!made.lengths.equal(other.at_step(step).lengths)) ++differ;
  }
  for (std::uint64_t place = 0; place < 64; ++place)
    drawn.insert(std::ssize(source->training_sequence(1, place).points));
  EXPECT_EQ(lengths, drawn);  // each sequence of its two groups once
  EXPECT_LT(static_cast<double>(padded), 1.15 * static_cast<double>(points));
  EXPECT_GT(differ, 8);
  for (const std::int64_t step : {13, 2, 3})  // as a resumed run asks
    EXPECT_TRUE(again.at_step(step).points.equal(batches.at_step(step).points));
}

TEST(HeldOutBatches, HoldEachSequenceOnce) {
  const auto source = built_in_strokes({.held_out = 21});
  const auto batches = held_out_batches(*source, 8);
  ASSERT_EQ(batches.size(), 3u);
  std::int64_t points = 0;
  for (const StrokeBatch& made : batches) points += made.lengths.sum().item<std::int64_t>();
  EXPECT_EQ(points, source->held_out_points());
  EXPECT_EQ(batches[2].points.size(0), 5);
}

TEST(BuiltInStrokes, HaveNoEndAndOneHeldOutPart) {
  const auto source = built_in_strokes({.held_out = 20}), again = built_in_strokes({.held_out = 20});
  EXPECT_EQ(source->sha256(), again->sha256());
  EXPECT_EQ(source->training_sequences(), 0);
  EXPECT_EQ(source->name(), "built-in handwriting");
  const StrokeSequence one = source->training_sequence(3, 1'000'000'007);
  EXPECT_EQ(one.points, again->training_sequence(3, 1'000'000'007).points);
  EXPECT_NE(one.points, source->training_sequence(4, 1'000'000'007).points);
  EXPECT_EQ(one.starts.size(), one.text.size() + 1);
  EXPECT_NE(source->for_tuning()->held_out()[0].text, source->held_out()[0].text);
  // Normalised offsets have deviation 1, near enough, since the scale is that of other sequences.
  const OffsetScale scale = OffsetScale::of(source->held_out());
  EXPECT_NEAR(scale.deviation_x / source->scale().deviation_x, 1, 0.1);
  EXPECT_NEAR(scale.deviation_y / source->scale().deviation_y, 1, 0.1);
  const auto of_text = built_in_strokes(
      {.held_out = 5, .text = "the quick brown fox jumps over the lazy dog and runs away", .text_name = "fox.txt"});
  EXPECT_EQ(of_text->name(), "built-in handwriting of fox.txt");
  EXPECT_EQ(of_text->alphabet()->vocabulary(), 27);
  EXPECT_NE(of_text->sha256(), source->sha256());
  EXPECT_THROW(built_in_strokes({.max_characters = 3}), UsageError);
  EXPECT_THROW(built_in_strokes({.held_out = 0}), UsageError);
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting
