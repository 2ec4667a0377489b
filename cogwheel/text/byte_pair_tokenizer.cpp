#include "cogwheel/text/byte_pair_tokenizer.h"

#include "cogwheel/core/error.h"
#include "cogwheel/text/byte_pairs/composed_text.h"

namespace cogwheel::text {

BytePairTokenizer::BytePairTokenizer(BytePairVocabulary vocabulary, std::string_view what)
    : learned_(std::move(vocabulary)),
      encoding_(learned_, what),
      is_special_(learned_.tokens.size()),
      added_(learned_.tokens, learned_.added) {
  for (const Token token : learned_.special) is_special_[static_cast<std::size_t>(token)] = true;
}

std::vector<Token> BytePairTokenizer::encode(std::string_view text, std::string_view what) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 3);
  added_.split(text, tokens, [&](std::string_view part, std::size_t) { encode_part(part, tokens, what); });
  return tokens;
}

void BytePairTokenizer::encode_part(std::string_view text, std::vector<Token>& tokens, std::string_view what) const {
  if (learned_.nfc)
    encoding_.encode(composed_text(text), tokens, what);
  else
    encoding_.encode(text, tokens, what);
}

std::string BytePairTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) {
    if (token < 0 || token >= vocabulary())
      throw Error(expected_got("token", "below " + std::to_string(vocabulary()), std::to_string(token)));
    if (!is_special_[static_cast<std::size_t>(token)]) text += learned_.tokens[static_cast<std::size_t>(token)];
  }
  return text;
}

std::vector<SpecialToken> BytePairTokenizer::special_tokens() const {
  std::vector<SpecialToken> all;
  for (const Token token : learned_.special) all.push_back({learned_.tokens[static_cast<std::size_t>(token)], token});
  return all;
}

}  // namespace cogwheel::text
