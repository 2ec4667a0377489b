#include "cogwheel/core/encoding/base64.h"

#include <algorithm>

namespace cogwheel {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::span<const std::uint8_t> bytes) {
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

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t place = 0; place < text.size(); place += 4) {
    const bool last = place + 4 == text.size();
    const std::size_t padding = !last || text[place + 3] != '=' ? 0 : text[place + 2] == '=' ? 2 : 1;
    std::uint32_t group = 0;
    for (std::size_t index = 0; index < 4; ++index) {
      const std::size_t digit = index < 4 - padding ? alphabet.find(text[place + index]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t index = 0; index < 3 - padding; ++index)
      bytes.push_back(static_cast<char>(group >> (16 - 8 * index) & 0xff));
  }
  return bytes;
}

}  // namespace cogwheel
