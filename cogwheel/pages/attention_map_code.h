// Encodes attention maps for the page, compactly enough to inline every head of every run.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace cogwheel::pages {

// sign(a)·√|a|·127, rounded: a weight on the scale of every picture of weights. Those beyond ±1 are clipped; not for
// NaN.
std::int8_t weight_code(float weight);

// [tokens, tokens] weights, row by row, or of causal ones the lower triangle, as int8 of sign(a)·√|a|·127 in base64.
// The square root resolves small weights: steps of 0.0001 near 0, of 0.016 near 1. Weights beyond ±1 are clipped.
std::string encode_attention_map(std::span<const float> weights, std::int64_t tokens, bool whole = false);

}  // namespace cogwheel::pages
