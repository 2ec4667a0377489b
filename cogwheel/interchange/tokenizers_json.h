// A tokenizer as the tokenizer.json of Hugging Face's `tokenizers`: the same tokens of every text.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/core/token.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::interchange {

struct TokenizersJson {
  nlohmann::json all;
  // The name of a token that no text has, where the vocabulary has a row for it though it has no special tokens.
  std::optional<std::string> unused = {};

  // Of a special token.
  std::string name_of(Token token) const;
  // One token more, special, for the beginning and the end of texts; its name.
  std::string add_end(Token token);
  std::string text() const;
};

// What each kind becomes:
//   bpe            BPE over ByteLevel, words by the same expression
//   byte           BPE over ByteLevel without merges; byte 255, which no text in UTF-8 has, is `unused`
//   character      WordLevel over Split by characters; another character is refused, as here
//   words          WordLevel over Split by spaces
//   sentencepiece  BPE over characters with the merges that the scores say
//   piece_pairs    the same, as it was
// Throws Error that names `what` for a SentencePiece model that is no BPE, has a table of characters to normalise,
// pieces that users defined or that are unused, or drops spaces.
TokenizersJson tokenizers_json(const text::Tokenizer& tokenizer, std::string_view what);

}  // namespace cogwheel::interchange
