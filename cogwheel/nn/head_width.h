// The width of a head of a layer.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::nn {

// `head_dim`, or where it is 0 width / heads. Throws UsageError unless that is what kernels take, 8 to 1,024, or to
// `largest`, and heads divide the width where it follows from it.
std::int64_t checked_head_width(std::int64_t width, std::int64_t heads, std::int64_t head_dim = 0,
                                std::int64_t largest = max_head_dim);

}  // namespace cogwheel::nn
