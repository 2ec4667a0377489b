// The machine on which a comparison ran, and the memory that a run used.
#pragma once
#include <cstdint>
#include <optional>

#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

Comparison::Machine this_machine();

// Peak resident memory of the whole process since the last reset, libraries and data included. Both fail where the
// system does not support it (Linux: /proc/self/clear_refs).
bool reset_peak_memory();
std::optional<std::int64_t> peak_memory_bytes();
// What this process holds now, and what the system would give to it without swapping.
std::optional<std::int64_t> resident_memory_bytes();
std::optional<std::int64_t> available_memory_bytes();

}  // namespace cogwheel::compare
