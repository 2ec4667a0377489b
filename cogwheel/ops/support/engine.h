// Which engine runs a call. A device with kernels of its own has a fused engine; any other device, and the CPU if the
// environment variable COGWHEEL_ENGINE is "composed", uses the one composed of ATen's operators
// (pairwise_composed.cpp). The dispatcher chooses: a device's own registration precedes the one for all devices.
#pragma once
#include <c10/core/DeviceType.h>

#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel {

// Whether COGWHEEL_ENGINE was "composed" at the first call: the CPU then counts as a device without an engine.
bool cpu_is_composed();

// Throws UsageError where COGWHEEL_ENGINE is anything but "composed" or empty.
void check_engine_choice();

// Prints to stderr, once for each kind of device, that calls are composed there.
void note_composed(c10::DeviceType device);

// The available kernels of every family, the composed engine included, and which of them run.
std::vector<KernelEntry> available_engines();

}  // namespace cogwheel
