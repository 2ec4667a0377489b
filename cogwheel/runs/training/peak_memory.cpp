#include "cogwheel/runs/training/peak_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "cogwheel/core/process/memory.h"

namespace cogwheel::runs {
namespace {

c10::DeviceAllocator* allocator_of(at::Device device) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

c10::DeviceIndex index_of(at::Device device) { return std::max<c10::DeviceIndex>(device.index(), 0); }

}  // namespace

PeakMemory::PeakMemory(at::Device device) : device_(device), measured_(false) {
  if (device.is_cpu()) {
    measured_ = reset_peak_memory();
  } else if (c10::DeviceAllocator* const allocator = allocator_of(device); allocator && allocator->initialized()) {
    allocator->resetPeakStats(index_of(device));
    measured_ = true;
  }
}

std::optional<std::int64_t> PeakMemory::bytes() const {
  if (!measured_) return std::nullopt;
  if (device_.is_cpu()) return peak_memory_bytes();
  constexpr std::size_t all = 0;  // of small and large blocks
  return allocator_of(device_)->getDeviceStats(index_of(device_)).allocated_bytes[all].peak;
}

}  // namespace cogwheel::runs
