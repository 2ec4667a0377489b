// The attention weights of every head of a model on a text, as plain numbers, for display.
#pragma once
#include <span>
#include <vector>

#include "cogwheel/models/token.h"

namespace cogwheel {

class LanguageModel;

// [layers][output heads], each [tokens, tokens] row by row: the weights that the heads apply to the values. For a
// difference of two maps these are the effective weights of its output heads, half as many.
std::vector<std::vector<std::vector<float>>> attention_maps(LanguageModel& model, std::span<const Token> text);

}  // namespace cogwheel
