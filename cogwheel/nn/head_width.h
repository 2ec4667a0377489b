// The width of a head of a layer.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::nn {

// width / heads. Throws UsageError unless heads divide the width, and that is what kernels take: 8 to 1,024, or to
// `largest`.
std::int64_t checked_head_width(std::int64_t width, std::int64_t heads, std::int64_t largest = max_head_dim);

}  // namespace cogwheel::nn
