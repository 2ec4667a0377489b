// Unicode code points in UTF-8 (RFC 3629).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cogwheel {

// Upper-case digits of a number.
std::string hexadecimal(std::uint32_t value, int digits);

struct CodePoint {
  char32_t value;
  std::size_t bytes;  // 0: no valid sequence starts here
};

// The code point that starts at `offset`, which must lie in the text. Overlong forms and surrogates are invalid.
CodePoint decode_utf8(std::string_view text, std::size_t offset);

// The code point at `offset`, for a message: 'é' (U+00E9) at byte 3; byte 0xFF at offset 3 where none
// starts.
std::string code_point_text(std::string_view text, std::size_t offset);

void append_utf8(std::string& text, char32_t code_point);

// The offset of the first byte that is not text: one that starts no valid sequence, or NUL. npos: none.
std::size_t find_non_text(std::string_view bytes);

}  // namespace cogwheel
