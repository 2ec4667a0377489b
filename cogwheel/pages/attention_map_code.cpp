#include "cogwheel/pages/attention_map_code.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "cogwheel/core/encoding/base64.h"

namespace cogwheel::pages {

std::int8_t weight_code(float weight) {
  const float clipped = std::clamp(weight, -1.0F, 1.0F);
  return static_cast<std::int8_t>(std::copysign(std::round(127 * std::sqrt(std::abs(clipped))), clipped));
}

std::string encode_attention_map(std::span<const float> weights, std::int64_t tokens, bool whole) {
  std::vector<std::uint8_t> codes;
  codes.reserve(static_cast<std::size_t>(whole ? tokens * tokens : tokens * (tokens + 1) / 2));
  for (std::int64_t query = 0; query < tokens; ++query)
    for (std::int64_t key = 0; key < (whole ? tokens : query + 1); ++key)
      codes.push_back(static_cast<std::uint8_t>(weight_code(weights[static_cast<std::size_t>(query * tokens + key)])));
  return base64(codes);
}

WideMap wide_map(std::span<const float> numbers) {
  WideMap map;
  for (const float number : numbers)
    if (std::abs(number) <= std::numeric_limits<float>::max()) map.range = std::max(map.range, std::abs(number));
  const float factor = map.range > 0 ? 1 / map.range : 0;
  map.codes.resize(numbers.size());
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    const float number = numbers[index];
    // min, because the factor is rounded
    const float code = std::min(largest_code, std::sqrt(std::abs(number) * factor) * largest_code + 0.5F);
    map.codes[index] = number == -std::numeric_limits<float>::infinity()
                           ? hidden_code
                           : static_cast<std::int16_t>(number < 0 ? -code : code);
  }
  return map;
}

std::uint8_t short_code(std::int16_t code) {
  if (code == hidden_code) return 0x80;
  const int rounded = (std::abs(int{code}) * 127 + 16383) / 32767;
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(code < 0 ? -rounded : rounded));
}

std::string encode(const WideMap& map, int bits) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(map.codes.size() * static_cast<std::size_t>(bits / 8));
  for (const std::int16_t code : map.codes) {
    if (bits == 8) {
      bytes.push_back(short_code(code));
      continue;
    }
    const auto word = static_cast<std::uint16_t>(code);
    bytes.push_back(static_cast<std::uint8_t>(word & 0xFF)), bytes.push_back(static_cast<std::uint8_t>(word >> 8));
  }
  return base64(bytes);
}

}  // namespace cogwheel::pages
