#include "cogwheel/report/attention_map_code.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cogwheel {

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t place = 0; place < bytes.size(); place += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - place);
    std::uint32_t group = 0;
    for (std::size_t index = 0; index < 3; ++index) group = group << 8 | (index < count ? bytes[place + index] : 0U);
    for (std::size_t index = 0; index < 4; ++index)
      text += index <= count ? alphabet[group >> (18 - 6 * index) & 63] : '=';
  }
  return text;
}

std::string encode_attention_map(std::span<const float> weights, std::int64_t tokens) {
  std::vector<std::uint8_t> codes;
  codes.reserve(static_cast<std::size_t>(tokens * (tokens + 1) / 2));
  for (std::int64_t query = 0; query < tokens; ++query)
    for (std::int64_t key = 0; key <= query; ++key) {
      const float weight = std::clamp(weights[static_cast<std::size_t>(query * tokens + key)], -1.0F, 1.0F);
      const float code = std::copysign(std::round(127 * std::sqrt(std::abs(weight))), weight);
      codes.push_back(static_cast<std::uint8_t>(static_cast<std::int8_t>(code)));
    }
  return base64(codes);
}

}  // namespace cogwheel
