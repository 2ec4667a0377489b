// Sums whose bits do not depend on the number of threads: at::sum splits by threads where it sums many into one.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// full [B, H·sub_heads, N, M], contiguous → the sizes of a tensor that was broadcast to [B, H, N, M], by summing in
// index order, in double, over what was broadcast and over the sub-heads of a head.
at::Tensor sum_in_order(const at::Tensor& full, std::int64_t sub_heads, at::IntArrayRef sizes);

// The same by ATen's operators, whose order does not change on other devices: what the first one calls there.
at::Tensor sum_by_operators(const at::Tensor& full, std::int64_t sub_heads, at::IntArrayRef sizes);

}  // namespace cogwheel::ops
