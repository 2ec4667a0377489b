// x Wᵀ + b, through whichever of libtorch's libraries is the fastest on this CPU (matrix_product_library.h).
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// x [..., inputs], weight [outputs, inputs], bias [outputs] → [..., outputs], all of one type, which autocast does
// not change. float32 on the CPU goes through matrix_product_library(), all else through at::linear. Differentiable any
// number of times.
at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias);

}  // namespace cogwheel::ops
