// Memory of the machine and of this process, in bytes.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace cogwheel {

// All that the machine has; 0 where the system does not say. Inline for the executable, which links no library.
inline std::int64_t physical_memory_bytes() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}
// What the system would give to this process without swapping, and what the process holds now.
std::optional<std::int64_t> available_memory_bytes();
std::optional<std::int64_t> resident_memory_bytes();
// The most that the process has held since the last reset, libraries and data included. Both fail where the system does
// not support it (Linux: /proc/self/clear_refs).
bool reset_peak_memory();
std::optional<std::int64_t> peak_memory_bytes();

}  // namespace cogwheel
