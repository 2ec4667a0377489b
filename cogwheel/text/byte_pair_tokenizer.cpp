#include "cogwheel/text/byte_pair_tokenizer.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/text/composed_text.h"

namespace cogwheel::text {

BytePairTokenizer::BytePairTokenizer(BytePairVocabulary vocabulary, std::string_view what)
    : learned_(std::move(vocabulary)), encoding_(learned_, what), is_special_(learned_.tokens.size()) {
  for (const Token token : learned_.special) is_special_[static_cast<std::size_t>(token)] = true;
  if (learned_.added.empty()) return;
  added_.resize(256);
  const auto text_of = [&](Token token) -> const std::string& {
    return learned_.tokens[static_cast<std::size_t>(token)];
  };
  for (const Token token : learned_.added) added_[static_cast<unsigned char>(text_of(token)[0])].push_back(token);
  for (std::vector<Token>& tokens : added_)
    std::stable_sort(tokens.begin(), tokens.end(),
                     [&](Token one, Token other) { return text_of(one).size() > text_of(other).size(); });
}

std::vector<Token> BytePairTokenizer::encode(std::string_view text, std::string_view what) const {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 3);
  std::size_t begin = 0;
  for (std::size_t at = 0; !added_.empty() && at < text.size(); ++at)
    for (const Token token : added_[static_cast<unsigned char>(text[at])]) {
      const std::string& added = learned_.tokens[static_cast<std::size_t>(token)];
      if (!text.substr(at).starts_with(added)) continue;
      encode_part(text.substr(begin, at - begin), tokens, what);
      tokens.push_back(token);
      begin = at + added.size();
      at = begin - 1;
      break;
    }
  encode_part(text.substr(begin), tokens, what);
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
