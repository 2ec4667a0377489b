// Encodes attention maps for the page, compactly enough to inline every head of every run.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cogwheel::pages {

// sign(a)·√|a|·127, rounded: a weight on the scale of every picture of weights. Those beyond ±1 are clipped; not for
// NaN.
std::int8_t weight_code(float weight);

// [tokens, tokens] weights, row by row, or of causal ones the lower triangle, as int8 of sign(a)·√|a|·127 in base64.
// The square root resolves small weights: steps of 0.0001 near 0, of 0.016 near 1. Weights beyond ±1 are clipped.
std::string encode_attention_map(std::span<const float> weights, std::int64_t tokens, bool whole = false);

// Numbers of any size in 16 bits: a code c stands for sign(c) · (c / 32767)² · range, so that small numbers keep their
// digits; or for a hidden key.
struct WideMap {
  float range = 0;  // the largest magnitude
  std::vector<std::int16_t> codes;
};

inline constexpr float largest_code = 32767;
inline constexpr std::int16_t hidden_code = -32768;

// Number by number, in the order of the map; −∞ is a hidden key.
WideMap wide_map(std::span<const float> numbers);
// 16 bits as 8, where −128 is a hidden key.
std::uint8_t short_code(std::int16_t code);
// The codes in base64: of 16 bits (little endian), or of 8.
std::string encode(const WideMap& map, int bits);

}  // namespace cogwheel::pages
