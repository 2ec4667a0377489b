// A byte-pair vocabulary as the tokenizer.json of a run.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

inline constexpr std::string_view byte_pair_kind = "bpe";

// {"kind", "words", "unicode", "whole_words", "beginning", "end_of_document", "special", "tokens", "merges"}: tokens in
// order, in the characters of byte_alphabet.h, special and added ones as they are; of merges, two tokens each. "added"
// and "nfc" are there where the vocabulary has them.
std::string byte_pair_json(const BytePairVocabulary& vocabulary);

// Throws Error that names `what` where a key is missing or of another type. What merged_tokens checks is not checked.
BytePairVocabulary byte_pair_vocabulary_of(const nlohmann::json& json, std::string_view what);

}  // namespace cogwheel::text
