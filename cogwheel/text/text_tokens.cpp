#include "cogwheel/text/text_tokens.h"

#include <algorithm>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/sentence_tokenizer.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

bool begins_texts(const Tokenizer& tokenizer) { return tokenizer.beginning().has_value(); }

void expect_known_words(const Tokenizer& tokenizer, std::string_view text, std::span<const Token> tokens,
                        std::string_view what) {
  if (tokenizer.kind() != WordTokenizer::name) return;
  const auto unknown = std::find(tokens.begin(), tokens.end(), Token{SentenceTokens::unknown});
  if (unknown == tokens.end()) return;
  // Words are what spaces separate, so that the token's place is the word's.
  std::size_t start = text.find_first_not_of(' ');
  for (auto token = tokens.begin(); token != unknown; ++token)
    start = text.find_first_not_of(' ', text.find(' ', start));
  throw UsageError(expected_got(what, "words that the run knows",
                                std::string(text.substr(start, std::min(text.find(' ', start), text.size()) - start))));
}

std::vector<Token> tokens_of(const Tokenizer& tokenizer, std::string_view text, std::string_view what) {
  if (const std::size_t at = find_non_text(text); at != std::string::npos)
    throw UsageError(expected_got(what, "UTF-8", code_point_text(text, at)));
  std::vector<Token> tokens;
  try {
    tokens = tokenizer.encode(text, what);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  expect_known_words(tokenizer, text, tokens, what);
  if (begins_texts(tokenizer)) tokens.insert(tokens.begin(), *tokenizer.beginning());
  return tokens;
}

std::optional<Token> token_before_texts(const Tokenizer& tokenizer, std::int64_t rows) {
  if (const auto beginning = tokenizer.beginning()) return beginning;
  if (const auto end = tokenizer.end_of_document()) return end;
  if (tokenizer.kind() == "byte") return Token{0xff};
  if (tokenizer.vocabulary() < rows) return static_cast<Token>(tokenizer.vocabulary());
  return std::nullopt;
}

std::string token_piece(const Tokenizer& tokenizer, Token token) {
  if (const auto* sentences = dynamic_cast<const SentenceTokenizer*>(&tokenizer)) return sentences->piece(token);
  for (const SpecialToken& special : tokenizer.special_tokens())
    if (special.token == token) return special.name;
  const std::string text = tokenizer.decode(std::span(&token, 1));
  if (find_non_text(text) == std::string::npos) return text;
  std::string bytes;
  for (const char byte : text) bytes += "\\x" + hexadecimal(static_cast<unsigned char>(byte), 2);
  return bytes;
}

}  // namespace cogwheel::text
