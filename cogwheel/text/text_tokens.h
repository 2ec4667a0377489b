// A text that somebody types, as the tokens of a trained model.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"

namespace cogwheel::text {

class Tokenizer;

// As in training: where words begin with a token of their own, that comes first. Throws UsageError, which begins with
// `what`, for bytes that are not UTF-8, a word that the tokenizer does not know, and what else it cannot read.
std::vector<Token> tokens_of(const Tokenizer& tokenizer, std::string_view text, std::string_view what);

// Throws UsageError, which begins with `what`, where words of the text became the token of those that are not known.
void expect_known_words(const Tokenizer& tokenizer, std::string_view text, std::span<const Token> tokens,
                        std::string_view what);

// Whether texts begin with a token of their own.
bool begins_texts(const Tokenizer& tokenizer);

// What stands before a text where something must: the token that begins texts, else the one that ends documents, else
// 255 of bytes, which is nowhere in UTF-8, else the first of the `rows` of an embedding that is no token's; none: there
// is none.
std::optional<Token> token_before_texts(const Tokenizer& tokenizer, std::int64_t rows);

// What a token says, in UTF-8: a byte that is no character by itself as "\xff".
std::string token_piece(const Tokenizer& tokenizer, Token token);

}  // namespace cogwheel::text
