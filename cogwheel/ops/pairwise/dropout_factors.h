// The factors by which dropout multiplies weights, as a tensor: the engine's draws, for compositions of ATen's
// operators.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// `size` [B, H, N, M], of the heads of the output and of queries from `first_query`; in the dtype and on the device of
// `like`. Drawn on the host, where the seed is read too: a seed on another device makes the call wait for it.
at::Tensor dropout_factors(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                           const at::Tensor& like);

}  // namespace cogwheel::ops
