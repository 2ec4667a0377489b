// Shared by every engine of cogwheel::pairwise: the checks of a call, and the shapes of its results.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// Checked again for callers of cogwheel::pairwise itself: engines do not check.
void check_options(const at::Tensor& query, const at::Tensor& key, const PairwiseOptions& options);
void check_members(const MixtureMembers& members, const at::Tensor& query, std::int64_t sub_heads);
void check_saved(const at::Tensor& gradient, const at::Tensor& query, const PairwiseSaved& saved);

at::TensorOptions computed_options(const at::Tensor& query);

// The output takes the order of the query's dimensions: where a query is a transposed view of [B, N, H, D], the layer's
// transpose back to [B, N, H·D] is free.
at::Tensor empty_output(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool wide);

// [B, Hq, N]
at::Tensor empty_totals(const at::Tensor& query);

// [statistics, B, heads, N]; empty unless wanted.
at::Tensor empty_statistics(const at::Tensor& query, const c10::SymInt& heads, bool wanted);

// With the modifier's sizes; empty if not wanted.
at::Tensor empty_modifier_gradient(bool wanted, const std::optional<at::Tensor>& modifier, const at::Tensor& query);

}  // namespace cogwheel::ops
