// Bytes as printable characters, which is how files of byte-pair tokenizers write tokens: a byte that prints as itself
// in Latin-1 is that character, the others are U+0100 onwards in their order. A space is Ġ, a line's end Ċ.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace cogwheel::text {

std::string printable_bytes(std::string_view bytes);
// Nothing where a character stands for no byte.
std::optional<std::string> bytes_of_printable(std::string_view printable);

}  // namespace cogwheel::text
