// Grouped queries, for code that needs a key or value head for each query head.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::ops {

// Keys or values of every query head, from those that neighbouring query heads share: [B, Hk, M, D] → [B, H, M, D]. The
// sub-heads of a head are adjacent.
inline at::Tensor for_query_heads(const at::Tensor& shared, const c10::SymInt& heads, std::int64_t sub_heads = 1) {
  if (shared.sym_size(1) == heads) return shared;
  const c10::SymInt batch = shared.sym_size(0), groups = shared.sym_size(1) / sub_heads, length = shared.sym_size(2),
                    width = shared.sym_size(3);
  return shared.reshape_symint({batch, groups, 1, sub_heads, length, width})
      .expand_symint({batch, groups, heads / (groups * sub_heads), sub_heads, length, width})
      .reshape_symint({batch, heads, length, width});
}

}  // namespace cogwheel::ops
