// Unicode's normalization form C: a letter and its accents as one character, where there is one.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::text {

// By the tables of libutf8proc. Bytes that are no character stay as they are, and nothing is composed across them.
std::string composed_text(std::string_view text);

}  // namespace cogwheel::text
