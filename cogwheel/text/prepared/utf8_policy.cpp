#include "cogwheel/text/prepared/utf8_policy.h"

#include <simdjson.h>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::text {

const std::vector<std::string>& invalid_utf8_names() {
  static const std::vector<std::string> names{"refuse", "replace", "drop"};
  return names;
}

InvalidUtf8 invalid_utf8_named(std::string_view name, std::string_view what) {
  const std::vector<std::string>& names = invalid_utf8_names();
  for (std::size_t index = 0; index < names.size(); ++index)
    if (names[index] == name) return static_cast<InvalidUtf8>(index);
  throw UsageError(expected_got(what, expected_names(name, names), name));
}

std::size_t find_invalid_utf8(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string_view::npos;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const CodePoint code_point = decode_utf8(bytes, offset);
    if (code_point.bytes == 0) return offset;
    offset += code_point.bytes;
  }
  return std::string_view::npos;
}

std::string with_invalid_utf8_replaced(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid =
        std::min(find_invalid_utf8(bytes.substr(0, 4096)), std::min<std::size_t>(4096, bytes.size()));
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty() || valid == 4096) continue;
    // Here a character begins that is invalid, or was cut by the piece.
    const CodePoint code_point = decode_utf8(bytes, 0);
    const std::size_t taken = std::max<std::size_t>(1, code_point.bytes);
    if (code_point.bytes == 0)
      append_utf8(text, U'\uFFFD');
    else
      text += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
  }
  return text;
}

namespace {

// The value of "\uXXXX" at the start, or −1.
int escaped_unit(std::string_view json) {
  if (json.size() < 6 || json[0] != '\\' || json[1] != 'u') return -1;
  int value = 0;
  for (const char digit : json.substr(2, 4)) {
    const int number = digit >= '0' && digit <= '9'   ? digit - '0'
                       : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                       : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                      : -1;
    if (number < 0) return -1;
    value = 16 * value + number;
  }
  return value;
}

bool is_high_surrogate(int unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low_surrogate(int unit) { return unit >= 0xdc00 && unit < 0xe000; }

}  // namespace

std::string with_lone_surrogates_replaced(std::string_view json) {
  std::string text;
  while (!json.empty()) {
    std::size_t taken = 1;
    if (const int unit = escaped_unit(json);
        is_high_surrogate(unit) && is_low_surrogate(escaped_unit(json.substr(6)))) {
      taken = 12;
    } else if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
      text += "\\ufffd";
      json.remove_prefix(6);
      continue;
    } else if (json[0] == '\\' && json.size() > 1) {
      taken = 2;  // also of an escaped backslash, after which a u is a letter
    }
    text += json.substr(0, taken);
    json.remove_prefix(taken);
  }
  return text;
}

}  // namespace cogwheel::text
