// A user's text, shortened to one line of a message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace cogwheel::authoring {

// At most `max_characters` characters from the beginning, "…" where more follow; what is no printable character is a
// space.
std::string excerpt(std::string_view text, std::size_t max_characters = 80);

// The position in UTF-8 of the character after the one at `at`.
std::size_t next_character(std::string_view text, std::size_t at);

}  // namespace cogwheel::authoring
