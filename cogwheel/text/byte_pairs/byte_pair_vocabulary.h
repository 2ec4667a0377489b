// What a byte-pair tokenizer has learned.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/core/token.h"
#include "cogwheel/text/byte_pairs/words.h"

namespace cogwheel::text {

struct BytePairVocabulary {
  WordPattern words = WordPattern::gpt2;
  std::vector<std::string> tokens = {};              // the bytes of each; of a special one, its name
  std::vector<std::pair<Token, Token>> merges = {};  // neighbours that become one token, the first before all others
  std::vector<Token> special = {};                   // ascending; no text is encoded as these
  // Not special, yet no merge makes them: each is looked for in a text before its words are.
  std::vector<Token> added = {};
  bool nfc = false;          // texts are brought into Unicode's form C first
  bool whole_words = false;  // a word that is a token is that token, whatever the merges would make of it
  std::optional<Token> beginning = {}, end_of_document = {};  // both special
};

// Of every learned one: all bytes, a special token, and something to learn.
inline constexpr Range<std::int64_t> byte_pair_vocabularies{258, 1 << 20};
inline constexpr std::int64_t default_byte_pair_vocabulary = 4096;

// What each merge makes. Throws Error that names `what` where a byte has no token, two tokens are the same, or a token
// of a merge, or what it makes, is none.
std::vector<Token> merged_tokens(const BytePairVocabulary& vocabulary, std::string_view what);

// The token of each byte, of a vocabulary that merged_tokens accepts.
std::array<Token, 256> byte_tokens(const BytePairVocabulary& vocabulary);

// The special token that ends a document, by the names that models give it.
std::optional<Token> named_end_of_document(std::span<const std::string> tokens, std::span<const Token> special);

}  // namespace cogwheel::text
