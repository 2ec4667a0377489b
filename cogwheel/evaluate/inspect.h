// Looking at a trained model.
#pragma once
#include <string_view>
#include <vector>

#include "cogwheel/data/dataset.h"
#include "cogwheel/evaluate/inspection.h"

namespace cogwheel {

class LanguageModel;

// The passage whose attention maps a report shows: the first whole line of the held-out part that reads as text (most
// of it letters, 24 tokens or more), cut to 31 tokens or the context; else the first tokens of the part.
std::vector<Token> choose_passage(const Dataset& data, std::int64_t context);

// A token as a reader sees it: its text, or \x and two digits for a byte that is none.
std::string token_label(const Tokenizer& tokenizer, Token token);

// The maps of every layer and head for the passage, and what the model writes after it (temperature 0.8). Models with
// the same data and seed get the same prompt and random numbers.
Inspection inspect(LanguageModel& model, const Dataset& data, std::string_view mechanism, std::int64_t seed);

}  // namespace cogwheel
