// "Did you mean …": the known names closest to one that was mistyped.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

// At most `max_names` of `known`, nearest first by edit distance; names too far off to be a typing error are left out,
// unless `name` is part of them.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                       std::size_t max_names = 3);

// "a, b (the nearest of 20 names)" where some are near, else "one of " and every known name. Nothing is near to an
// empty name, for which many names are only counted.
std::string expected_names(std::string_view name, const std::vector<std::string>& known);

}  // namespace cogwheel
