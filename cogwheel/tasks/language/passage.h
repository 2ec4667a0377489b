// Chooses the passage on which a trained model is inspected, and labels its tokens.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/text/dataset.h"

namespace cogwheel::tasks::language {

// The passage whose attention maps a report shows: the first whole line of the held-out part that reads as text (most
// of it letters, 24 tokens or more), cut to 31 tokens or the context; else the first tokens of the part.
std::vector<Token> choose_passage(const text::Dataset& data, std::int64_t context);

// A token for display: its text, or \x and two digits for a byte that is not text.
std::string token_label(const text::Tokenizer& tokenizer, Token token);

}  // namespace cogwheel::tasks::language
