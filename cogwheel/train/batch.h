// The input of one training step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel {

struct Batch {
  at::Tensor inputs, targets;  // as the loss of the task takes them
  std::int64_t tokens = 0;     // the number of the task's items (TaskDescription::item), for counts and speeds
};

}  // namespace cogwheel
