// The matrix by which each layer mixes the values of its tokens: the output of its heads for the identity as values.
//
// Measured, not derived: everything that is linear in its values has one, fused attention, a difference of two maps,
// and laws with a state alike, whose gates and normalisers stay those of the pass. So it is also a check of whatever
// claims to be the weights of a layer.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cogwheel/nn/forward_context.h"

namespace cogwheel::interpret {

// Runs a model on one input with this context, whatever it makes of it.
using ModelPass = std::function<void(const nn::ForwardContext& context)>;

struct EffectiveAttentionOptions {
  // Each channel of a value apart: where a state forgets each at its own rate, they are mixed differently.
  bool by_channel = false;
};

// Of each layer [B, heads of the output, N, N], row i what token i reads, the mean over channels where these differ; by
// channel [B, heads, N, N, width of a value]. What attention adds to the stream stays that of the pass, so that every
// layer reads what it reads there. Takes N / (width of a value) passes and two, or N and two where channels
// differ; by channel N and one. Without gradients.
std::vector<at::Tensor> effective_attention(const ModelPass& pass, const EffectiveAttentionOptions& options = {});

}  // namespace cogwheel::interpret
