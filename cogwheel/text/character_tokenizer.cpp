#include "cogwheel/text/character_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {

void expect_characters(std::string_view bytes, std::string_view what) {
  const std::size_t offset = find_non_text(bytes);
  if (offset == std::string_view::npos) return;
  throw Error(expected_got(what, "text in UTF-8 (other files: tokenizer \"byte\")", code_point_text(bytes, offset)));
}

CharacterTokenizer CharacterTokenizer::of_text(std::string_view text, std::string_view what) {
  expect_characters(text, what);
  std::set<char32_t> characters;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint code_point = decode_utf8(text, offset);
    characters.insert(code_point.value);
    offset += code_point.bytes;
  }
  return CharacterTokenizer({characters.begin(), characters.end()});
}

std::vector<Token> CharacterTokenizer::encode(std::string_view text, std::string_view what) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint code_point = decode_utf8(text, offset);
    if (code_point.bytes == 0) expect_characters(text, what);
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), code_point.value);
    if (found == characters_.end() || *found != code_point.value)
      throw Error(expected_got(what,
                               "one of the " + std::to_string(characters_.size()) + " characters of the training text",
                               code_point_text(text, offset)));
    tokens.push_back(static_cast<Token>(found - characters_.begin()));
    offset += code_point.bytes;
  }
  return tokens;
}

std::string CharacterTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) {
    if (token < 0 || token >= vocabulary())
      throw Error(expected_got("token", "below " + std::to_string(vocabulary()), std::to_string(token)));
    append_utf8(text, characters_[static_cast<std::size_t>(token)]);
  }
  return text;
}

std::string CharacterTokenizer::to_json() const {
  std::string characters;
  for (const char32_t character : characters_) append_utf8(characters, character);
  return nlohmann::json{{"kind", kind()}, {"characters", characters}}.dump(2) + "\n";
}

}  // namespace cogwheel::text
