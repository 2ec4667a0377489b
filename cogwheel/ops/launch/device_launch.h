// Launches on a GPU by its driver (attention/device).
#pragma once
#include <vector>

#include "cogwheel/attention/device/compiled_kernel.h"
#include "cogwheel/ops/launch/launch.h"

namespace cogwheel::ops {

// Throws Error where there is no driver.
DeviceTarget target_of(c10::DeviceIndex device);

device::KernelDescription description_of(const Launch& launch, const DeviceTarget& target);

// Compiles what the cache lacks, side by side.
void compile_for(const std::vector<Launch>& launches, const DeviceTarget& target);

// Launches kernels for a target on a stream of the driver. What the cache lacks is compiled first, side by side.
void run_on_device(const std::vector<Launch>& launches, const DeviceTarget& target, void* stream);

// On a device's current stream.
const Launcher& launcher_of_device(at::Device device);

// Why a device runs none of them, for people: no driver, too old, no Triton. Empty if it does; asked once.
std::string_view device_lacks(c10::DeviceIndex device);

}  // namespace cogwheel::ops
