// The dense forms of the catalogue: functions of the whole score matrix, by libtorch's matrix products.
//
// Autograd differentiates them, as often as asked. They are for research: time and memory of some grow with queries ·
// keys, and of all with more than a fused kernel takes. Their headers in `mechanisms/` say what each computes.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention.h"

namespace cogwheel {

// query [B, H, N, D], key [B, Hk, M, D], value [B, Hk, M, Dv], checked → [B, H, N, Dv]. `causal_mask` says how a causal
// call is aligned. Throws ValueError where a function of a square matrix meets N ≠ M, or coefficients do not fit, and
// for what the engine has and matrix products have not: other scores, windows, masks, biases, dropout.
at::Tensor dense_attention(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const AttentionOptions& options, std::string_view causal_mask);

}  // namespace cogwheel
