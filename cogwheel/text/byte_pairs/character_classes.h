// Which characters are letters, numbers and white space to byte-pair tokenizers: \p{L}, \p{N} and \s of the peers that
// people have, `tokenizers` and `tiktoken` of PyPI. A newer Unicode would end words elsewhere.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cogwheel::text {

enum class CharacterClass : std::uint8_t { other, letter, number, space };

class CharacterClasses {
 public:
  CharacterClasses();
  CharacterClass of(char32_t code_point) const { return blocks_[blocks_of_[code_point >> 8] + (code_point & 0xff)]; }
  CharacterClass of_ascii(unsigned char byte) const { return ascii_[byte]; }

 private:
  std::array<CharacterClass, 128> ascii_;
  std::array<std::uint32_t, 0x1100> blocks_of_;  // of 256 code points: where their classes start
  std::vector<CharacterClass> blocks_;
};

const CharacterClasses& character_classes();

// The version of Unicode that the table is of: "16.0".
std::string_view character_classes_unicode();

}  // namespace cogwheel::text
