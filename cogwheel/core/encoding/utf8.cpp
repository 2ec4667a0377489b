#include "cogwheel/core/encoding/utf8.h"

namespace cogwheel {

std::string hexadecimal(std::uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text.push_back("0123456789ABCDEF"[value >> shift & 0xf]);
  return text;
}

CodePoint decode_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[offset + index]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || offset + bytes > text.size()) return {0, 0};
  char32_t value = lead & (0x7f >> bytes);
  for (std::size_t index = 1; index < bytes; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return {0, 0};
    value = value << 6 | (byte(index) & 0x3f);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < smallest[bytes] || value > 0x10ffff || surrogate) return {0, 0};
  return {value, bytes};
}

std::string code_point_text(std::string_view text, std::size_t offset) {
  const CodePoint code_point = decode_utf8(text, offset);
  if (code_point.bytes == 0 || code_point.value == 0)  // what find_non_text finds
    return "byte 0x" + hexadecimal(static_cast<unsigned char>(text[offset]), 2) + " at offset " +
           std::to_string(offset);
  return "'" + std::string(text.substr(offset, code_point.bytes)) + "' (U+" +
         hexadecimal(code_point.value, code_point.value > 0xffff ? 6 : 4) + ") at byte " + std::to_string(offset);
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto append = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xc0 | code_point >> 6);
    append(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    append(0xe0 | code_point >> 12);
    append(0x80 | (code_point >> 6 & 0x3f));
    append(0x80 | (code_point & 0x3f));
  } else {
    append(0xf0 | code_point >> 18);
    append(0x80 | (code_point >> 12 & 0x3f));
    append(0x80 | (code_point >> 6 & 0x3f));
    append(0x80 | (code_point & 0x3f));
  }
}

std::size_t find_non_text(std::string_view bytes) {
  for (std::size_t offset = 0; offset < bytes.size();) {
    const CodePoint code_point = decode_utf8(bytes, offset);
    if (code_point.bytes == 0 || code_point.value == 0) return offset;
    offset += code_point.bytes;
  }
  return std::string_view::npos;
}

}  // namespace cogwheel
