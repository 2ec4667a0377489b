// LSTM and GRU over padded sequences, as one operator: all tokens, gates fused, with a backward pass of its own.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// x [N, B, gates · H], what the cell makes of each token, W x + b; weight [gates · H, H] and bias [gates · H], U and
// its bias, with the gates of torch.nn (i, f, g, o; r, z, n); hidden and memory [B, H], the state before the first
// token, without which it is 0; lengths [B] int64, without which all are N. cell: "lstm" or "gru", which has no memory.
// In reverse each sequence is walked from its last token to its first.
//
// → output [N, B, H], 0 at padding; the last hidden and memory [B, H], those of the last token of each sequence that
// the walk meets; and, without derivatives and empty unless `saves`, what backward reads. float32 or float64. A single
// token goes through the same products as any layer, longer sequences through the engine's own: equal but for rounding.
// Differentiable any number of times, from the second on by a composition.
using GatedOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
GatedOutputs gated_sequence(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& hidden, const OptionalTensor& memory, const OptionalTensor& lengths,
                            std::string_view cell, bool reverse, bool saves);

}  // namespace cogwheel::ops
