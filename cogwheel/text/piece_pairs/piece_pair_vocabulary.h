// What pairs of pieces a tokenizer has learned, and how it is read from the files of others.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::text {

// Where a text gets a ▁ before it.
enum class LeadingSpace {
  always,            // Prepend: also before a text that begins with one, and what lies between added tokens
  where_missing,     // Metaspace: but where one is already
  first_if_missing,  // the same at the beginning of a text alone
  never
};

struct PiecePairVocabulary {
  std::vector<std::string> tokens = {};              // with ▁ for a space
  std::vector<std::pair<Token, Token>> merges = {};  // neighbours that become one token, the first before all others
  std::vector<Token> special = {}, added = {};       // ascending; the second are looked for in a text first
  std::optional<Token> unknown = {};                 // of what is no token, several in a row as one; none: left out
  bool bytes = false;                                // <0x00> to <0xFF>, which stand for what is no token
  bool whole_words = false;                          // a text that is a token is that token
  LeadingSpace leading = LeadingSpace::always;
  bool drops_leading = true;                                  // decoding leaves one space at the beginning out
  std::optional<Token> beginning = {}, end_of_document = {};  // both special
};

// A tokenizer.json of Hugging Face's `tokenizers` whose model is a BPE without ByteLevel. Throws Error that names
// `what` and the part of it that is otherwise.
PiecePairVocabulary hugging_face_piece_pairs(const nlohmann::json& json, std::string_view what);

}  // namespace cogwheel::text
