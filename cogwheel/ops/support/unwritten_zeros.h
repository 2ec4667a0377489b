// Zeros that use memory page by page, as they are written to.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// Dispatches cogwheel::unwritten_zeros: contiguous, returned to the system with the tensor; on a device other than the
// CPU, ordinary zeros. Throws c10::Error where the system refuses even the addresses.
at::Tensor unwritten_zeros(c10::SymIntArrayRef sizes, at::ScalarType type, at::Device device);

}  // namespace cogwheel::ops
