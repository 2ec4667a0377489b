// The attention weights of every head of a model, as plain numbers, for display.
#pragma once
#include <functional>
#include <vector>

namespace cogwheel::nn {

struct ForwardContext;

// [layers][output heads][weights]
using WeightsOfHeads = std::vector<std::vector<std::vector<float>>>;

// Each head's [tokens, tokens], row by row: the weights that it applies to the values. For a difference of two maps
// these are the effective weights of its output heads, half as many. `pass` runs the model on one sequence with the
// context.
WeightsOfHeads attention_maps(const std::function<void(const ForwardContext&)>& pass);

}  // namespace cogwheel::nn
