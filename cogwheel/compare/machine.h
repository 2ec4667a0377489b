// The machine on which a comparison ran, and the memory that a run used.
#pragma once
#include <cstdint>
#include <optional>

#include "cogwheel/compare/comparison.h"

namespace cogwheel::compare {

Comparison::Machine this_machine();

// Peak resident memory of the whole process since the last reset, libraries and data included. Both fail where the
// system does not support it (Linux: /proc/self/clear_refs).
bool reset_peak_memory();
std::optional<std::int64_t> peak_memory_bytes();

}  // namespace cogwheel::compare
