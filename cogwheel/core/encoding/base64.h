// Bytes as text (RFC 4648, section 4).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cogwheel {

std::string base64(std::span<const std::uint8_t> bytes);

// The bytes again; nothing where this is no such text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace cogwheel
