// What a call of `attention` asks for, checked and put as the engine takes it.
#pragma once
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention.h"
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

// All but the scale, which the score knows. `causal_mask` says how a causal call is aligned. Throws ValueError for
// options that are wrong in shape, dtype or range, contradict each other, or mean nothing to the mechanism.
PairwiseOptions pairwise_options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                 const AttentionOptions& given, std::string_view causal_mask);

}  // namespace cogwheel
