// Unicode's normalization form C: a letter and its accents as one character, where there is one.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::text {

// As `tokenizers` has it, whose tables are those of Unicode 9.0. Bytes that are no character stay as they are, and
// nothing is composed across them.
std::string composed_text(std::string_view text);

}  // namespace cogwheel::text
