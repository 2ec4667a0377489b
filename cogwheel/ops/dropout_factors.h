// What dropout multiplies weights by, as a tensor: the engine's draws, for what is composed of ATen's operators.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// `size` [B, H, N, M], of the heads of the output and of queries from `first_query`; in the dtype and on the device of
// `like`. Drawn on the host, and the seed is read there: on another device it has the call wait.
at::Tensor dropout_factors(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                           const at::Tensor& like);

}  // namespace cogwheel
