#include "cogwheel/cli/allocator.h"

#include <mimalloc.h>
#include <unistd.h>

#include <cstdlib>

namespace cogwheel::cli {

void keep_freed_memory() {
  if (std::getenv("MIMALLOC_RESERVE_OS_MEMORY") != nullptr) return;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return;
  // This reserves addresses, not memory: pages are allocated when they are touched. Where it fails, nothing changes.
  mi_reserve_os_memory(static_cast<std::size_t>(pages) / 2 * static_cast<std::size_t>(page), /*commit=*/true,
                       /*allow_large=*/false);
}

}  // namespace cogwheel::cli
