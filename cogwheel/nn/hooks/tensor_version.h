// Whether a function that was given a tensor has written into it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {

// Another number after a write in place; 0 for an inference tensor, which has none.
inline std::int64_t tensor_version(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

}  // namespace cogwheel::nn
