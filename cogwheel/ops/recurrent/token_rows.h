// What a law makes of the rows of keys and queries before the walk, each in one pass over the numbers.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// rows [B, H, N, D], each times its token's number in weights [B, H, N].
at::Tensor weighted_rows(const at::Tensor& rows, const at::Tensor& weights);

// rows [B, H, N, D], or with `relu` what is above 0 of them, times cosines [N] and times sines [N]: [B, H, N, 2 D].
at::Tensor turned_rows(const at::Tensor& rows, const at::Tensor& cosines, const at::Tensor& sines, bool relu);

// rows [B, H, N, D] times projection [H, D, R], each number added up in the order of D, so that the bits of a row do
// not depend on how many rows there are: [B, H, N, R].
at::Tensor projected_rows(const at::Tensor& rows, const at::Tensor& projection);

}  // namespace cogwheel::ops
