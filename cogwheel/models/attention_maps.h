// The attention weights of every head of a model on a text, as plain numbers, for display.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "cogwheel/models/token.h"

namespace cogwheel {

class LanguageModel;
struct ForwardContext;

// [layers][output heads][weights]
using WeightsOfHeads = std::vector<std::vector<std::vector<float>>>;

// Each head's [tokens, tokens], row by row: the weights that it applies to the values. For a difference of two maps
// these are the effective weights of its output heads, half as many.
WeightsOfHeads attention_maps(LanguageModel& model, std::span<const Token> text);
// The same of any model: `pass` runs it on one sequence with the context.
WeightsOfHeads attention_maps(const std::function<void(const ForwardContext&)>& pass);

}  // namespace cogwheel
