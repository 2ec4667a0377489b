// "Did you mean …": the known names closest to one that was mistyped.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

// At most `most` of `known`, nearest first by edit distance; names too far to be a slip are left out, unless `name`
// begins or is contained in them.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                       std::size_t most = 3);

// "one of a, b (nearest first)" where something is near, else "one of " and every known name.
std::string expected_names(std::string_view name, const std::vector<std::string>& known);

}  // namespace cogwheel
