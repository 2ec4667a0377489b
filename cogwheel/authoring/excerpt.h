// What a user wrote, as one line of a message can show it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace cogwheel {

// At most `most` characters from the beginning, "…" where more follow; what is no printable character is a space.
std::string excerpt(std::string_view text, std::size_t most = 80);

// The bytes of UTF-8 at which the character after the one at `at` begins.
std::size_t next_character(std::string_view text, std::size_t at);

}  // namespace cogwheel
