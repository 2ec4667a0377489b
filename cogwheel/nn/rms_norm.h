// Root-mean-square normalisation (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, eq. 4).
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// y = x / √(mean(x²) + epsilon) · weight over the last dimension; x [..., width], weight [width], both float32 or both
// float64. One pass each way: at::rms_norm has no kernel for the CPU and takes twenty times as long as layer_norm on
// [4096, 384]. The gradient of the weight is summed in an order that the shape fixes. A second derivative raises.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace cogwheel
