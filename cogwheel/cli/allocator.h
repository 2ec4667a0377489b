// Settings of the allocator of the executable.
#pragma once

namespace cogwheel::cli {

// Makes mimalloc keep the memory of freed blocks, where MIMALLOC_RESERVE_OS_MEMORY does not say otherwise. By
// default it returns blocks of a few megabytes to the system, so that the activations of each training step fault in
// again page by page: a quarter of a step at width 384.
void keep_freed_memory();

}  // namespace cogwheel::cli
