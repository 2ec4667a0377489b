// The factors by which dropout multiplies weights, as a tensor: the engine's draws, for compositions of ATen's
// operators.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/attention/kernels/pairwise/dropout.h"

namespace cogwheel::ops {

// What decides which weights are dropped. As an option it is a tensor of one int64, or of four: the seed, then the
// members of `part` in their order.
struct DropoutSeed {
  std::uint64_t seed;
  dropout::Part part = {};

  explicit DropoutSeed(const at::Tensor& numbers);
  // As an option of a call on a part of what it is for: on queries from `first_query` on and, of one text of the batch,
  // heads from `first_head` on of so many. They drop what they drop among all.
  at::Tensor of_part(std::int64_t first_query, std::int64_t text, std::int64_t first_head, std::int64_t heads) const;
};
inline constexpr std::int64_t numbers_of_part = 4;

// `size` [B, H, N, M], of the heads of the output and of queries from `first_query`; in the dtype and on the device of
// `like`, where the draws are made.
at::Tensor dropout_factors(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                           const at::Tensor& like);

}  // namespace cogwheel::ops
