// What a task gives a model at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel {

struct Batch {
  at::Tensor inputs, targets;  // as the task's own loss takes them
  std::int64_t tokens = 0;     // of the task's items (TaskDescription::item), for counts and speeds
};

}  // namespace cogwheel
