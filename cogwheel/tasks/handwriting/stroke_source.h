// Strokes to train on and strokes held out, from files or written by the built-in font.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/tasks/handwriting/lines_to_write.h"
#include "cogwheel/tasks/handwriting/stroke_files.h"
#include "cogwheel/text/character_tokenizer.h"

namespace cogwheel::tasks::handwriting {

class StrokeSource {
 public:
  virtual ~StrokeSource() = default;

  // What the data are, as a run records it.
  const std::string& name() const { return name_; }
  const std::string& sha256() const { return sha256_; }
  std::int64_t bytes() const { return bytes_; }  // of files; 0: none
  // Of the offsets to train on, to which all are normalised.
  const OffsetScale& scale() const { return scale_; }
  // The alphabet of all texts, held-out ones included; null where no sequence has a text.
  const std::shared_ptr<const text::CharacterTokenizer>& alphabet() const { return alphabet_; }
  std::span<const StrokeSequence> held_out() const { return held_out_; }
  std::int64_t held_out_points() const;
  // In one line, what the files hold and is not used, and why; empty: nothing.
  const std::string& left_out() const { return left_out_; }

  // How many sequences and points there are to train on; 0: without end.
  virtual std::int64_t training_sequences() const = 0;
  virtual std::int64_t training_points() const = 0;
  // The sequence that training with a seed meets at this place, counted from 0. Of files, each once before any comes
  // again, in another order each time.
  virtual StrokeSequence training_sequence(std::uint64_t seed, std::uint64_t place) const = 0;

  // The same data for choosing settings: what was to be trained on, in part held out instead of what is held out here.
  virtual std::shared_ptr<const StrokeSource> for_tuning() const = 0;

 protected:
  std::string name_, sha256_, left_out_;
  std::int64_t bytes_ = 0;
  OffsetScale scale_;
  std::shared_ptr<const text::CharacterTokenizer> alphabet_;
  std::vector<StrokeSequence> held_out_;
};

// About a tenth is held out (held_out_tenth.h), chosen by the origins, or of one origin by what is drawn; sequences
// that draw the same are on one side. The hash covers the files and which of them is held out. Throws Error for less
// than two different sequences, and where only some have a text.
std::shared_ptr<const StrokeSource> strokes_of_files(StrokeSet set);

struct BuiltInStrokes {
  std::int64_t max_characters = 24;  // 4 or more
  std::int64_t held_out = 500;       // sequences, 1 or more
  std::string text = {};             // what is written; empty: words of its own
  std::string text_name = "text";
};

// Handwriting without end. What is held out is the same for every seed.
std::shared_ptr<const StrokeSource> built_in_strokes(const BuiltInStrokes& options = {});

}  // namespace cogwheel::tasks::handwriting
