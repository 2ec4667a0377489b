// Attention as libtorch operators: checked, differentiable, with shapes as in torch's scaled_dot_product_attention.
// The same functions stand in torch.ops.cogwheel for Python and torch.compile.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace cogwheel {

struct AttentionOptions {
  bool causal = false;            // the last query sees the last key, also where queries ≠ keys
  std::optional<double> scale;    // 1/√head_dim unless given
  std::optional<at::Tensor> lam;  // differential only: λ, [H] or broadcastable to [B, H, N]
};

// query [B, H, N, D], key [B, Hk, M, D], value [B, Hk, M, Dv] → [B, H, N, Dv]; Hk divides H (grouped queries).
// differential: query [B, 2H, N, D], key [B, 2Hk, M, D], value [B, Hk, M, Dv]; the sub-heads of a head are adjacent.
// float32 or float64, 8 ≤ D ≤ 256, any strides. A query that sees no key gives 0, and 0 gradient.
// Differentiable in query, key, value and lam; a second derivative raises. Throws c10::ValueError, one line each.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism = "softmax", const AttentionOptions& options = {});

// The weights that `attention` applies to the values, [B, H, N, M]: 0 where a key is hidden. Made by the same kernel,
// with the identity for values. For pictures: time and memory grow with N·M.
at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism = "softmax",
                             const AttentionOptions& options = {});

}  // namespace cogwheel
