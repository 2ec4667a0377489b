// Text to words, as the regular expressions of families of models cut it, by scanners of exactly these:
//
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+
//   qwen2   that of llama3 with \p{N} for \p{N}{1,3}
//   gpt2_digits   that of gpt2 over what lies between characters of \p{N}, each of which is a word
//
// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019); the second is that of GPT-4's
// vocabulary too; the last is SmolLM's. Every byte of a text is in a word. A byte that starts no character is one of no
// class, which the expressions, whose texts are all of characters, do not know.
#pragma once
#include <cstddef>
#include <string_view>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/text/byte_pairs/character_classes.h"

namespace cogwheel::text {

enum class WordPattern { gpt2, llama3, qwen2, gpt2_digits };

template <WordPattern pattern>
class WordScanner {
  // gpt2_digits: the text is what lies between digits.
  static constexpr bool of_gpt2 = pattern == WordPattern::gpt2 || pattern == WordPattern::gpt2_digits;

 public:
  explicit WordScanner(std::string_view text) : text_(text), classes_(character_classes()) {}

  // Where the word ends that starts at `start`, which must lie in the text.
  std::size_t end(std::size_t start) const {
    if (text_[start] == '\'')
      if (const std::size_t bytes = contraction(start); bytes > 0) return start + bytes;
    const Seen first = seen(start);
    const std::size_t second = start + first.bytes;
    if constexpr (of_gpt2) {
      if (text_[start] == ' ' && second < text_.size())
        if (const Seen next = seen(second); next.of != CharacterClass::space) return run(second + next.bytes, next.of);
      if (first.of != CharacterClass::space) return run(second, first.of);
    } else {
      if (first.of == CharacterClass::letter) return run(second, CharacterClass::letter);
      if (first.of == CharacterClass::number) return numbers(second);
      if (second < text_.size() && !is_line_end(text_[start])) {
        const Seen next = seen(second);
        if (next.of == CharacterClass::letter) return run(second + next.bytes, CharacterClass::letter);
        if (text_[start] == ' ' && next.of == CharacterClass::other)
          return line_ends(run(second + next.bytes, next.of));
      }
      if (first.of == CharacterClass::other) return line_ends(run(second, CharacterClass::other));
    }
    return spaces(start, second);
  }

 private:
  struct Seen {
    CharacterClass of;
    std::size_t bytes;
  };

  static bool is_line_end(char byte) { return byte == '\n' || byte == '\r'; }

  Seen seen(std::size_t offset) const {
    const auto byte = static_cast<unsigned char>(text_[offset]);
    if (byte < 0x80) return {classes_.of_ascii(byte), 1};
    const CodePoint code_point = decode_utf8(text_, offset);
    if (code_point.bytes == 0) return {CharacterClass::other, 1};
    return {classes_.of(code_point.value), code_point.bytes};
  }

  std::size_t run(std::size_t offset, CharacterClass of) const {
    while (offset < text_.size()) {
      const Seen next = seen(offset);
      if (next.of != of) break;
      offset += next.bytes;
    }
    return offset;
  }

  std::size_t numbers(std::size_t offset) const {
    if (pattern == WordPattern::qwen2) return offset;
    for (int more = 0; more < 2 && offset < text_.size(); ++more) {
      const Seen next = seen(offset);
      if (next.of != CharacterClass::number) break;
      offset += next.bytes;
    }
    return offset;
  }

  std::size_t line_ends(std::size_t offset) const {
    while (offset < text_.size() && is_line_end(text_[offset])) ++offset;
    return offset;
  }

  // A run of white space from `start`, whose second character is at `second`. The last one goes with what follows,
  // unless it is alone; of llama3 and qwen2, what goes as far as a line's end stays together.
  std::size_t spaces(std::size_t start, std::size_t second) const {
    std::size_t end = second, last = start, line_end = 0;
    if (is_line_end(text_[start])) line_end = second;
    while (end < text_.size()) {
      const Seen next = seen(end);
      if (next.of != CharacterClass::space) break;
      last = end;
      end += next.bytes;
      if (is_line_end(text_[last])) line_end = end;
    }
    if (!of_gpt2 && line_end > 0) return line_end;
    return end == text_.size() || last == start ? end : last;
  }

  // The bytes of 's, 't, 're, 've, 'm, 'll or 'd; 0: none. (?i:s) is ſ too, whose lower case it is.
  std::size_t contraction(std::size_t start) const {
    const auto letter = [&](std::size_t index) -> char {
      if (start + index >= text_.size()) return '\0';
      const char byte = text_[start + index];
      return !of_gpt2 && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
    };
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    if (first == 'l' && second == 'l') return 3;
    if (!of_gpt2 && first == '\xc5' && second == '\xbf') return 3;
    return 0;
  }

  std::string_view text_;
  const CharacterClasses& classes_;
};

// The first character of \p{N} from `start` on, as the offsets of its ends; both are that of the text where there is
// none.
struct NumberPlace {
  std::size_t begin, end;
};
inline NumberPlace next_number(std::string_view text, std::size_t start) {
  const CharacterClasses& classes = character_classes();
  while (start < text.size()) {
    const CodePoint code_point = decode_utf8(text, start);
    const std::size_t bytes = code_point.bytes == 0 ? 1 : code_point.bytes;
    if (code_point.bytes > 0 && classes.of(code_point.value) == CharacterClass::number) return {start, start + bytes};
    start += bytes;
  }
  return {text.size(), text.size()};
}

}  // namespace cogwheel::text
