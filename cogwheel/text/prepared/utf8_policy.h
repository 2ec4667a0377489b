// What becomes of a document that is not UTF-8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::text {

enum class InvalidUtf8 {
  refuse,   // an error that says where
  replace,  // each byte that begins no character becomes U+FFFD
  drop      // the document is left out
};
const std::vector<std::string>& invalid_utf8_names();
// Throws UsageError that names `what`.
InvalidUtf8 invalid_utf8_named(std::string_view name, std::string_view what);

// The offset of the first byte that begins no character; npos: none.
std::size_t find_invalid_utf8(std::string_view bytes);
std::string with_invalid_utf8_replaced(std::string_view bytes);

// Of a text in JSON, with U+FFFD for each escape of half a surrogate pair, "\ud800", which stands for no character.
std::string with_lone_surrogates_replaced(std::string_view json);

}  // namespace cogwheel::text
