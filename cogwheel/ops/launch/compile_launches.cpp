#include "cogwheel/ops/launch/compile_launches.h"

#include <torch/library.h>

#include <memory>
#include <string>
#include <string_view>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/launch/device_launch.h"

namespace cogwheel::ops {
namespace {

// Of this thread, that compiles, between two calls of compile_launches.
thread_local std::unique_ptr<Compiles> of_thread;

std::int64_t compile_launches(std::string_view target) {
  const std::int64_t compiled = of_thread ? of_thread->compiled() : 0;
  try {
    of_thread = target.empty() ? nullptr : std::make_unique<Compiles>(DeviceTarget::named(target));
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
  launch_cpu_tensors_by(of_thread.get());
  return compiled;
}

}  // namespace

void Compiles::run(const std::vector<Launch>& launches) const {
  compile_for(launches, target_);
  compiled_ += static_cast<std::int64_t>(launches.size());
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  // What this thread's walks of tensors on the CPU launch from now on is compiled for a device, and nothing is
  // computed, until it is called with an empty name, which returns how many kernels that were.
  library.def("compile_launches(str target) -> int", [](c10::string_view target) {
    return compile_launches({target.data(), target.size()});
  });
}

}  // namespace cogwheel::ops
