// Whether the CPU's fused kernels run, or what is composed of ATen's operators for devices without kernels, or kernels
// for GPUs interpreted: a choice by the environment variable COGWHEEL_ENGINE.
#pragma once
#include <c10/core/DeviceType.h>

#include <string>
#include <string_view>

namespace cogwheel::ops {

// Whether COGWHEEL_ENGINE was "composed" at the first call: every device then counts as one without an engine.
bool attention_is_composed();

// Whether it was "interpreted": attention on the CPU then runs the kernels for GPUs.
bool interprets_kernels();

// The variable and its value, for people.
std::string engine_choice();

// Throws UsageError where COGWHEEL_ENGINE is anything but "composed", "interpreted" or empty.
void check_engine_choice();

// Prints to stderr, once for each kind of device, that calls are composed there; `lacked` is what the device's kernels
// lack for the call, empty where it has none.
void note_composed(c10::DeviceType device, std::string_view lacked);

}  // namespace cogwheel::ops
