// Reads TOML that a user wrote.
#pragma once
#include <toml++/toml.h>

#include <string_view>

namespace cogwheel::runs {

// Throws UsageError that names `what` and the line where the text is no TOML.
toml::table parse_toml(std::string_view text, std::string_view what);

}  // namespace cogwheel::runs
