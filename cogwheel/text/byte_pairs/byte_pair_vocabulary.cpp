#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

std::string numbered(std::string_view kind, std::size_t index) {
  return std::string(kind) + " " + std::to_string(index);
}

}  // namespace

std::vector<Token> merged_tokens(const BytePairVocabulary& vocabulary, std::string_view what) {
  const auto refuse = [&](std::string_view expected, const std::string& got) {
    throw Error(expected_got(what, expected, got));
  };
  const auto count = static_cast<Token>(vocabulary.tokens.size());
  std::vector<bool> is_special(vocabulary.tokens.size());
  for (const Token token : vocabulary.special) {
    if (token < 0 || token >= count) refuse("special tokens of the vocabulary", numbered("token", std::size_t(token)));
    is_special[static_cast<std::size_t>(token)] = true;
  }
  for (const auto& token : {vocabulary.beginning, vocabulary.end_of_document})
    if (token && (*token < 0 || *token >= count || !is_special[static_cast<std::size_t>(*token)]))
      refuse("a special token at the beginning and end of texts", "token " + std::to_string(*token));
  std::vector<bool> is_added(vocabulary.tokens.size());
  for (const Token token : vocabulary.added) {
    if (token < 0 || token >= count || is_special[static_cast<std::size_t>(token)])
      refuse("added tokens of the vocabulary that are not special", "token " + std::to_string(token));
    is_added[static_cast<std::size_t>(token)] = true;
  }
  std::unordered_map<std::string_view, Token> found;
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    if (vocabulary.tokens[token].empty()) refuse("tokens of a byte at least", "none in " + numbered("token", token));
    if (is_special[token]) continue;
    const auto [earlier, is_new] = found.emplace(vocabulary.tokens[token], static_cast<Token>(token));
    if (!is_new && !is_added[token] && !is_added[static_cast<std::size_t>(earlier->second)])
      refuse("tokens that differ", "the same in " + numbered("token", static_cast<std::size_t>(earlier->second)) +
                                       " and " + numbered("token", token));
  }
  for (int byte = 0; byte < 256; ++byte)
    if (const char text = static_cast<char>(byte); !found.contains(std::string_view(&text, 1)))
      refuse("a token for each byte", "none for byte 0x" + hexadecimal(static_cast<std::uint32_t>(byte), 2));
  std::vector<Token> merged;
  merged.reserve(vocabulary.merges.size());
  std::string both;
  for (const auto& [left, right] : vocabulary.merges) {
    for (const Token token : {left, right})
      if (token < 0 || token >= count || is_special[static_cast<std::size_t>(token)])
        refuse("merges of tokens", "token " + std::to_string(token) + " in " + numbered("merge", merged.size() + 1));
    both = vocabulary.tokens[static_cast<std::size_t>(left)];
    both += vocabulary.tokens[static_cast<std::size_t>(right)];
    const auto made = found.find(both);
    if (made == found.end()) refuse("merges that make tokens", "another in " + numbered("merge", merged.size() + 1));
    merged.push_back(made->second);
  }
  return merged;
}

std::array<Token, 256> byte_tokens(const BytePairVocabulary& vocabulary) {
  std::array<Token, 256> tokens{};
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    const std::string& bytes = vocabulary.tokens[token];
    if (bytes.size() == 1 &&
        !std::binary_search(vocabulary.special.begin(), vocabulary.special.end(), static_cast<Token>(token)))
      tokens[static_cast<unsigned char>(bytes[0])] = static_cast<Token>(token);
  }
  return tokens;
}

std::optional<Token> named_end_of_document(std::span<const std::string> tokens, std::span<const Token> special) {
  for (const std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"})
    for (const Token token : special)
      if (tokens[static_cast<std::size_t>(token)] == name) return token;
  return std::nullopt;
}

}  // namespace cogwheel::text
