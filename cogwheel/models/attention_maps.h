// What every head of a model looks at in a text, as plain numbers: for pictures.
#pragma once
#include <span>
#include <vector>

#include "cogwheel/models/token.h"

namespace cogwheel {

class LanguageModel;

// [layers][output heads], each [tokens, tokens] row by row: what the heads apply to the values, of a difference of two
// maps the effective difference, over its halved heads.
std::vector<std::vector<std::vector<float>>> attention_maps(LanguageModel& model, std::span<const Token> text);

}  // namespace cogwheel
