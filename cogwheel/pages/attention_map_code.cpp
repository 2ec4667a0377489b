#include "cogwheel/pages/attention_map_code.h"

#include <algorithm>
#include <cmath>
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

}  // namespace cogwheel::pages
