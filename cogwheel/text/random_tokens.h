// Tokens that are random numbers, for tasks whose shape alone matters.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::text {

// Tokens without a text.
class NumberedTokens final : public SentenceTokenizer {
 public:
  explicit NumberedTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view kind() const override { return "numbered"; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  // Throws Error: there is no text to read.
  std::vector<Token> encode(std::string_view text, std::string_view what) const override;
  std::string decode(std::span<const Token>) const override { return ""; }
  std::string to_json() const override { return "{}"; }
  std::string piece(Token) const override { return ""; }

 private:
  std::int64_t vocabulary_;
};

// From `first` to `end`, which is not one of them.
std::vector<Token> random_tokens(std::int64_t count, std::int64_t first, std::int64_t end, std::mt19937_64& generator);

}  // namespace cogwheel::text
