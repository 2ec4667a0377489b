// The attention weights of a layer's heads as hooks see and change them: scores, the maps of a difference, the pattern.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/forward_context.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::nn {

// What one pass of a layer weighs by.
struct WeighedHeads {
  const at::Tensor &query, &key;  // [B, heads, tokens, head_dim] each
  const Mechanism& mechanism;
  const ops::MechanismParameters& learned;  // of its row map, without λ
  const ops::AttentionOptions& options;
};

struct ObservedWeights {
  at::Tensor value;      // [B, output heads, N, M]
  bool changed = false;  // by hooks; else what the kernels computed stands
};

// The weights of each head through what hooks make of scores, of the maps of a difference and of them: 0 where keys are
// hidden, whatever hooks say, and so is the gradient. Throws UsageError where hooks ask for what the mechanism has not,
// or for scores or maps of a difference with dropout.
ObservedWeights observed_weights(const WeighedHeads& heads, const ForwardContext& context);

}  // namespace cogwheel::nn
