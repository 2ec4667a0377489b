// The most memory that something takes where a model is.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace cogwheel::runs {

// From its construction on: of the CPU, resident memory of the process, libraries and data included; of another device,
// what PyTorch's allocator has given out there.
class PeakMemory {
 public:
  explicit PeakMemory(at::Device device);
  // None where the system, or the device's allocator, does not say.
  std::optional<std::int64_t> bytes() const;

 private:
  at::Device device_;
  bool measured_;
};

}  // namespace cogwheel::runs
