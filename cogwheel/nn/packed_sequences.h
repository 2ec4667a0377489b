// Sequences that lie one after another in a batch of one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::nn {

// [tokens] int64 on the CPU: how many tokens of its own sequence stand before each token, of sequences whose bounds are
// `cu_seqlens`, [S + 1] integers from 0 to `tokens`. Throws UsageError that begins with `what` for other bounds, and
// for a batch of more than one.
at::Tensor places_in_sequences(const at::Tensor& cu_seqlens, std::int64_t batch, std::int64_t tokens, const char* what);

}  // namespace cogwheel::nn
