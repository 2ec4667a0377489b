// Which queries see which keys, as tensors: the engine's rule and table, for what is composed of ATen's operators.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

// 0, 1, … int64 on the device of `like`.
at::Tensor positions(const c10::SymInt& count, const at::Tensor& like);

// The key at which query i stands, [B or 1, 1, N, 1]: i + diagonal, or by the batch entry.
at::Tensor standing(const c10::SymInt& queries, const c10::SymInt& diagonal, const at::Tensor& like,
                    const PairwiseOptions& options);

// By the table or the rule, biases aside: [B or 1, H or 1, N or 1, M], true where the query sees the key. Undefined:
// all do.
at::Tensor visible_pairs(const c10::SymInt& queries, const c10::SymInt& keys, const at::Tensor& like,
                         const PairwiseOptions& options);

// False where a bias is −∞.
at::Tensor is_not_hidden(const at::Tensor& bias);

}  // namespace cogwheel
