// x Wᵀ + b for few rows, where the weights are what takes time to read.
//
// A number of the result is summed in an order that follows from the inputs alone, whatever other rows there are: a
// sequence of a batch gets the bits that it gets alone, which libraries do not promise. MKL and oneDNN choose their
// kernel, and with it the order of the sum, by the number of rows.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// x [rows, inputs] float32; weight [outputs, inputs] float32, bfloat16, or int8 with a scale for each output, float32
// [outputs]; bias [outputs] float32 → [rows, outputs] float32. Sums are float32. On the CPU, without derivatives.
at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& scale,
                       const OptionalTensor& bias);

}  // namespace cogwheel::ops
