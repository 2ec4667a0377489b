// Which queries see which keys, as tensors: the engine's rule and table, for compositions of ATen's operators.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// 0, 1, … int64 on the device of `like`.
at::Tensor positions(const c10::SymInt& count, const at::Tensor& like);

// Some of the queries of a call: `count` of `all`, from `first`. Options with a row for each query have just these
// rows.
struct QueryRows {
  QueryRows(const c10::SymInt& queries) : count(queries), all(queries) {}
  QueryRows(const c10::SymInt& from, const c10::SymInt& queries, const c10::SymInt& of)
      : first(from), count(queries), all(of) {}

  c10::SymInt first = 0, count, all;
};

// The key at the position of each query, [B or 1, 1, N, 1]: i + diagonal, or by the batch entry.
at::Tensor standing(const QueryRows& queries, const c10::SymInt& diagonal, const at::Tensor& like,
                    const PairwiseOptions& options);

// By the table or the rule, biases aside: [B or 1, H or 1, N or 1, M], true where the query sees the key. Undefined
// if all do.
at::Tensor visibility_mask(const QueryRows& queries, const c10::SymInt& keys, const at::Tensor& like,
                           const PairwiseOptions& options);

// False where a bias is −∞.
at::Tensor is_not_hidden(const at::Tensor& bias);

}  // namespace cogwheel::ops
