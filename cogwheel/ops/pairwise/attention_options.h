// Checks the options of an `attention` call and translates them for the engine.
#pragma once
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// All but the scale, which belongs to the score. `causal_mask` says how a causal call is aligned. Throws ValueError for
// options that are wrong in shape, dtype or range, contradict each other, or do not apply to the mechanism.
PairwiseOptions pairwise_options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                 const AttentionOptions& given, std::string_view causal_mask);

// The shapes and types of lengths, for a family without PairwiseOptions; the numbers are checked where they are read.
void check_key_lengths(const at::Tensor& lengths, const at::Tensor& query);
void check_cu_seqlens(const AttentionOptions& given, const at::Tensor& query, const c10::SymInt& keys);

}  // namespace cogwheel::ops
