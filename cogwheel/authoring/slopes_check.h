// Whether a map's derivatives are those of its functions, and its values numbers.
#pragma once
#include <span>
#include <string_view>

#include "cogwheel/mechanisms/scalar_map.h"

namespace cogwheel {

// Throws UsageError with the first score at which f or g is not a number, or at which a slope is not that of finite
// differences: expected, got. Scores at which a function jumps or has a kink are left out.
void check_slopes(std::string_view name, const ScalarMap& map, std::span<const double> theta);

}  // namespace cogwheel
