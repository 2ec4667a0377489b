// The dense mechanisms of the catalogue: functions of the whole score matrix, by libtorch's matrix products.
//
// Autograd differentiates them any number of times. They are for research: all need more time and memory than a fused
// kernel, some of them queries · keys. Their headers in `mechanisms/` say what each computes.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// query [B, H, N, D], key [B, Hk, M, D], value [B, Hk, M, Dv], checked → [B, H, N, Dv]. `causal_mask` says how a causal
// call is aligned. Throws ValueError where a function of a square matrix gets N ≠ M, or coefficients have the wrong
// shape, and for options that only the engine has: other scores, windows, biases, dropout. With key_lengths, hidden
// tokens add nothing to the matrix: where queries and keys are the same tokens (N = M), rows of queries neither.
at::Tensor dense_attention(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const AttentionOptions& options, std::string_view causal_mask);

}  // namespace cogwheel::ops
