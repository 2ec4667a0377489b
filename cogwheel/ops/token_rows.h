// What a law makes of the rows of keys and queries before the walk, each in one pass over the numbers.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// rows [B, H, N, D], each times its token's number in weights [B, H, N].
at::Tensor weighted_rows(const at::Tensor& rows, const at::Tensor& weights);

// rows [B, H, N, D], or with `relu` what is above 0 of them, times cosines [N] and times sines [N]: [B, H, N, 2 D].
at::Tensor turned_rows(const at::Tensor& rows, const at::Tensor& cosines, const at::Tensor& sines, bool relu);

}  // namespace cogwheel
