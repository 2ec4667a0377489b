// What `cogwheel list kernels` shows.
#pragma once
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel::ops {

// The available kernels of every family, the composed engine included, and which of them run.
std::vector<KernelEntry> available_engines();

}  // namespace cogwheel::ops
