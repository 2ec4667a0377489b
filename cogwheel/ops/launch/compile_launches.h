// A launcher that only compiles, for a device that need not be there.
#pragma once
#include <cstdint>
#include <utility>

#include "cogwheel/ops/launch/launch.h"

namespace cogwheel::ops {

class Compiles : public Launcher {
 public:
  explicit Compiles(DeviceTarget target) : target_(std::move(target)) {}

  DeviceTarget target() const override { return target_; }
  void run(const std::vector<Launch>& launches) const override;

  std::int64_t compiled() const { return compiled_; }

 private:
  DeviceTarget target_;
  mutable std::int64_t compiled_ = 0;
};

// Gives it the launches of this thread's tensors on the CPU for as long as it lives.
class Instead {
 public:
  explicit Instead(const Launcher& launcher) { launch_cpu_tensors_by(&launcher); }
  ~Instead() { launch_cpu_tensors_by(nullptr); }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;
};

}  // namespace cogwheel::ops
