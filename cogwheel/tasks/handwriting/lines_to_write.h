// What the built-in handwriting writes: lines of words, its own or of a user's text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/random.h"

namespace cogwheel::tasks::handwriting {

// What data are for. No part has a word of its own that another has, of a text no place.
enum class DataPart : std::uint32_t { training, held_out, tuning };

class LinesToWrite {
 public:
  // English words, made-up ones, numbers, strings of any letters, and punctuation: no part has a word of another.
  explicit LinesToWrite(std::int64_t max_characters);
  // Words of a text in their order: the last tenth is held out, the tenth before it is for tuning. Throws Error for
  // characters that the font lacks, and for less than ten words that fit into a line.
  LinesToWrite(std::string_view text, std::string_view what, std::int64_t max_characters);

  // At least one word; at most max_characters.
  std::string line(NumberedDraws& draws, DataPart part) const;
  // Every character that lines may have, in the order of ASCII.
  const std::string& characters() const { return characters_; }
  std::int64_t max_characters() const { return max_characters_; }

 private:
  std::string of_text(NumberedDraws& draws, DataPart part) const;

  std::int64_t max_characters_;
  std::vector<std::string> words_;  // of the text
  std::string characters_;
};

// One word of letters alone, English or made up, that a part may have.
std::string word_to_write(NumberedDraws& draws, DataPart part);

}  // namespace cogwheel::tasks::handwriting
