// The machine a comparison ran on, and the memory a run took.
#pragma once
#include <cstdint>
#include <optional>

#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

Comparison::Machine this_machine();

// Largest resident memory of the process since the last reset, the process as a whole: libraries and data included.
// Neither where the system does not allow it (Linux: /proc/self/clear_refs).
bool reset_peak_memory();
std::optional<std::int64_t> peak_memory_bytes();

}  // namespace cogwheel
