// Attention of the newest queries over keys and values that a cache holds.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "cogwheel/ops/attention.h"

namespace cogwheel {

// query [B, H, n, D], key [B, Hk, M, D], value [B, Hk, M, Dv] → [B, H, n, Dv], heads as `attention` has them. Of batch
// entry b the first lengths[b] keys count, and query i stands at key first_positions[b] + i: it sees the keys up to its
// own, and where `options` has a window, the last of these. Both tensors are [B] int64. Equals the rows of the full
// causal pass at those positions. What does not go beside it: options.key_lengths, options.cu_seqlens.
// Throws c10::ValueError as `attention` does, and for dense forms, functions of the whole score matrix, of which no row
// can be had alone.
at::Tensor decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& first_positions, const at::Tensor& lengths, std::string_view mechanism = "softmax",
                  const AttentionOptions& options = {});

}  // namespace cogwheel
