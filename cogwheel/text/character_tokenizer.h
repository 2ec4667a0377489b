// One token per Unicode code point of a text, in sorted order.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

class CharacterTokenizer final : public Tokenizer {
 public:
  // The characters of a text. Throws Error that names `what` and the offset of the first byte that is not text.
  static CharacterTokenizer of_text(std::string_view text, std::string_view what);
  // Sorted, without repetition.
  explicit CharacterTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {}

  std::string_view kind() const override { return "character"; }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(characters_.size()); }
  std::vector<Token> encode(std::string_view text, std::string_view what) const override;
  std::string decode(std::span<const Token> tokens) const override;
  std::string to_json() const override;

 private:
  std::vector<char32_t> characters_;
};

// Throws Error unless every byte belongs to text in UTF-8.
void expect_characters(std::string_view bytes, std::string_view what);

}  // namespace cogwheel::text
