#include "cogwheel/cli/allocator.h"

#include <mimalloc.h>

#include <cstdint>
#include <cstdlib>

#include "cogwheel/core/process/memory.h"

namespace cogwheel::cli {

void keep_freed_memory() {
  if (std::getenv("MIMALLOC_RESERVE_OS_MEMORY") != nullptr) return;
  const std::int64_t bytes = physical_memory_bytes() / 2;
  if (bytes == 0) return;
  // This reserves addresses, not memory: pages are allocated when they are touched. Where it fails, nothing changes.
  mi_reserve_os_memory(static_cast<std::size_t>(bytes), /*commit=*/true, /*allow_large=*/false);
}

}  // namespace cogwheel::cli
