// Memory of the machine and of this process, in bytes.
#pragma once
#include <cstdint>
#include <optional>

namespace cogwheel {

// All that the machine has; 0 where the system does not say.
std::int64_t physical_memory_bytes();
// What the system would give to this process without swapping, and what the process holds now.
std::optional<std::int64_t> available_memory_bytes();
std::optional<std::int64_t> resident_memory_bytes();
// The most that the process has held since the last reset, libraries and data included. Both fail where the system does
// not support it (Linux: /proc/self/clear_refs).
bool reset_peak_memory();
std::optional<std::int64_t> peak_memory_bytes();

}  // namespace cogwheel
