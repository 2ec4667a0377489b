// Which engine runs a call. A device with kernels of its own has a fused one; any other, and the CPU where the
// environment variable COGWHEEL_ENGINE says "composed", has the one that is composed of ATen's operators
// (pairwise_composed.cpp). The dispatcher is the table: what a device has registered comes before what serves them all.
#pragma once
#include <c10/core/DeviceType.h>

#include <vector>

#include "cogwheel/kernels/pairwise/pairwise.h"

namespace cogwheel {

// COGWHEEL_ENGINE when this process first asked: the CPU is a device without an engine.
bool cpu_is_composed();

// Throws UsageError where COGWHEEL_ENGINE is anything but "composed" or empty.
void check_engine_choice();

// Says on stderr, the first time for each kind of device, that calls are composed there.
void note_composed(c10::DeviceType device);

// The kernels that there are (available_kernels), with the composed engine as one more, and which of them run.
std::vector<KernelEntry> available_engines();

}  // namespace cogwheel
