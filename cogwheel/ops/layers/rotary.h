// The rotation of planes, each of two components, by the angles of their positions; nn/rotary.h makes the angles.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// x [B, N, heads, head_dim] → the same shape, contiguous. table [2, P, head_dim/2] has the cosines, then the sines of
// positions 0 … P − 1, in the type of x, or in float32 where that has 16 bits. Token n of entry b is at position
// positions[b, n], or positions[n], of int64; without them at first + n. Planes are of halves (p and p + head_dim/2) or
// neighbours (2p and 2p + 1). `back` rotates the other way, as for gradients.
//
// Positions beyond the table are refused; where reading them would wait for the device, their results are NaN instead.
// Linear in x: differentiable any number of times.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& table, const OptionalTensor& positions, std::int64_t first,
                  bool halves, bool back);

}  // namespace cogwheel::ops
