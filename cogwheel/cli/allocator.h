// The allocator of the executable.
#pragma once

namespace cogwheel {

// Makes mimalloc keep the memory of freed blocks, where MIMALLOC_RESERVE_OS_MEMORY does not say otherwise. Left alone
// it gives blocks of a few megabytes back to the system, and activations of each training step fault in again page by
// page: a quarter of a step at width 384.
void keep_freed_memory();

}  // namespace cogwheel
