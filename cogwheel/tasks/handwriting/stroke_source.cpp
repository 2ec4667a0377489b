#include "cogwheel/tasks/handwriting/stroke_source.h"

#include <algorithm>
#include <set>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/core/range.h"
#include "cogwheel/tasks/handwriting/handwriting_data.h"
#include "cogwheel/tasks/handwriting/stroke_font.h"
#include "cogwheel/text/held_out_tenth.h"

namespace cogwheel::tasks::handwriting {
namespace {

std::int64_t points_of(std::span<const StrokeSequence> sequences) {
  std::int64_t points = 0;
  for (const StrokeSequence& sequence : sequences) points += std::ssize(sequence.points);
  return points;
}

class StrokesOfFiles final : public StrokeSource {
 public:
  explicit StrokesOfFiles(StrokeSet set) {
    name_ = set.name, sha256_ = set.sha256, bytes_ = set.bytes, left_out_ = set.unused.text();
    std::string characters;
    const auto has_text = [](const StrokeSequence& sequence) { return !sequence.text.empty(); };
    const std::int64_t texts = std::count_if(set.sequences.begin(), set.sequences.end(), has_text);
    if (texts > 0) {
      for (const StrokeSequence& sequence : set.sequences) characters += sequence.text;
      alphabet_ = std::make_shared<text::CharacterTokenizer>(text::CharacterTokenizer::of_text(characters, set.name));
    }
    if (texts > 0 && texts < std::ssize(set.sequences))
      throw Error(expected_got(set.name, "a text for each sequence, or for none",
                               std::to_string(texts) + " for " + std::to_string(set.sequences.size())));
    split(std::move(set.sequences), std::move(set.origins));
  }

  // With part of the training data held out.
  explicit StrokesOfFiles(const StrokesOfFiles& other, std::true_type) : StrokeSource(other) {
    held_out_.clear();
    split(other.training_, other.origins_);
  }

  std::int64_t training_sequences() const override { return std::ssize(training_); }
  std::int64_t training_points() const override { return points_of(training_); }
  StrokeSequence training_sequence(std::uint64_t seed, std::uint64_t place) const override {
    const std::uint64_t count = training_.size();
    const KeyedOrder order(count, seed, place / count);
    return training_[static_cast<std::size_t>(order.at(place % count))];
  }
  std::shared_ptr<const StrokeSource> for_tuning() const override {
    return std::make_shared<StrokesOfFiles>(*this, std::true_type());
  }

 private:
  void split(std::vector<StrokeSequence> sequences, std::vector<std::string> origins) {
    std::vector<std::string> drawn;
    for (const StrokeSequence& sequence : sequences) drawn.push_back(content_of(sequence));
    // All of one origin: each sequence by itself, since something has to be held out.
    const bool one_origin = std::set<std::string>(origins.begin(), origins.end()).size() < 2;
    const std::vector<bool> held_out = text::held_out_tenth({.keys = one_origin ? drawn : origins, .ties = drawn});
    if (std::find(held_out.begin(), held_out.end(), true) == held_out.end())
      throw Error(expected_got(name_, "two different sequences or more, one to hold out",
                               std::to_string(sequences.size()) + (sequences.size() > 1 ? " that are equal" : "")));
    sha256_ = text::sha256_of_split(sha256_, held_out);
    std::vector<StrokeSequence> training;
    std::vector<std::string> training_origins;
    for (std::size_t index = 0; index < sequences.size(); ++index) {
      if (held_out[index]) {
        held_out_.push_back(std::move(sequences[index]));
      } else {
        training.push_back(std::move(sequences[index]));
        training_origins.push_back(std::move(origins[index]));
      }
    }
    training_ = std::move(training), origins_ = std::move(training_origins);
    scale_ = OffsetScale::of(training_);
  }

  std::vector<StrokeSequence> training_;
  std::vector<std::string> origins_;
};

class WrittenLines final : public StrokeSource {
 public:
  WrittenLines(const BuiltInStrokes& options, DataPart held_out)
      : options_(options),
        lines_(options.text.empty() ? LinesToWrite(options.max_characters)
                                    : LinesToWrite(options.text, options.text_name, options.max_characters)) {
    name_ = options.text.empty() ? "built-in handwriting" : "built-in handwriting of " + options.text_name;
    bytes_ = std::ssize(options.text);
    alphabet_ =
        std::make_shared<text::CharacterTokenizer>(text::CharacterTokenizer::of_text(lines_.characters(), name_));
    for (std::int64_t number = 0; number < options.held_out; ++number)
      held_out_.push_back(sequence(0, held_out, static_cast<std::uint64_t>(number)));
    std::vector<StrokeSequence> some;
    for (std::uint64_t number = 0; number < 500; ++number) some.push_back(sequence(0, DataPart::training, number));
    scale_ = OffsetScale::of(some);
    // The font, the styles and the words are known by what they make.
    Sha256 hash;
    hash.add(options.text);
    for (const auto* sequences : {&held_out_, &some})
      for (const StrokeSequence& each : *sequences) {
        hash.add(each.text + "\n");
        for (const StrokePoint& point : each.points)
          hash.add(number_text(static_cast<double>(point.dx)) + " " + number_text(static_cast<double>(point.dy)) +
                   (point.ends ? " 1\n" : " 0\n"));
      }
    sha256_ = hash.digits();
  }

  std::int64_t training_sequences() const override { return 0; }
  std::int64_t training_points() const override { return 0; }
  StrokeSequence training_sequence(std::uint64_t seed, std::uint64_t place) const override {
    return sequence(seed, DataPart::training, place);
  }
  std::shared_ptr<const StrokeSource> for_tuning() const override {
    return std::make_shared<WrittenLines>(options_, DataPart::tuning);
  }

 private:
  StrokeSequence sequence(std::uint64_t seed, DataPart part, std::uint64_t number) const {
    NumberedDraws draws(seed, stream_named("line") + static_cast<std::uint32_t>(part), number);
    const std::string line = lines_.line(draws, part);
    const HandwritingStyle style = drawn_style(draws);
    return write_by_hand(line, style, draws);
  }

  BuiltInStrokes options_;
  LinesToWrite lines_;
};

}  // namespace

std::int64_t StrokeSource::held_out_points() const { return points_of(held_out_); }

std::shared_ptr<const StrokeSource> strokes_of_files(StrokeSet set) {
  return std::make_shared<StrokesOfFiles>(std::move(set));
}

std::shared_ptr<const StrokeSource> built_in_strokes(const BuiltInStrokes& options) {
  expect_within("characters of a line", options.max_characters, Range<std::int64_t>{4, 1000});
  expect_within("held-out sequences", options.held_out, Range<std::int64_t>{1, 1'000'000});
  return std::make_shared<WrittenLines>(options, DataPart::held_out);
}

}  // namespace cogwheel::tasks::handwriting
