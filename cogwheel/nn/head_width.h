// The width of a head of a layer.
#pragma once
#include <cstdint>

namespace cogwheel {

// width / heads. Throws UsageError unless heads divide the width, and that is 8 to 256.
std::int64_t checked_head_width(std::int64_t width, std::int64_t heads);

}  // namespace cogwheel
