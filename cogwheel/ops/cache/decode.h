// Attention of the newest queries over keys and values that a cache holds.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// query [B, H, n, D], key [B, Hk, capacity, D] or the same in panels (ops/support/key_panels.h), value [B, Hk,
// capacity, Dv] → [B, H, n, Dv], heads as `attention` has them. Of batch entry b the first lengths[b] keys count, and
// the queries are those of its last tokens: n of them, or query_lengths[b] in the first rows. Both are [B] int64. A
// query sees the keys up to its own position, and with a window in `options` the last of these: the result equals the
// rows of the full causal pass at those positions. options.key_lengths and options.cu_seqlens are refused. Only
// operators read tensor data here, so that torch.compile and torch.func can trace it. Throws c10::ValueError as
// `attention` does, for more queries than tokens, and for dense mechanisms, whose rows cannot be computed alone.
at::Tensor decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                  const std::optional<at::Tensor>& query_lengths, std::string_view mechanism = "softmax",
                  const AttentionOptions& options = {});

// Dispatches cogwheel::cache_longest: the largest of the lengths, or `unless_known` where there are no numbers to read.
c10::SymInt cache_longest(const at::Tensor& lengths, c10::SymInt unless_known);

}  // namespace cogwheel::ops
