// SHA-256 (FIPS 180-4), to name contents: the text that a result was made from, a definition that was compiled.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel {

// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace cogwheel
