// Attention as libtorch operators: checked, differentiable, with shapes as in torch's scaled_dot_product_attention.
// torch.ops.cogwheel has the same functions for Python and torch.compile.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cogwheel::ops {

// The mechanism's own arguments by name, as the catalogue lists them. H counts query heads; for a difference of two
// maps it counts both sub-heads:
//   differential        lam, λ, [output heads] or broadcastable to [B, output heads, N], required, over any map
//   softmax_off_by_one  sink [H], 0 unless given
//   sigmoid             shift [H], −log(visible keys) unless given
//   consmax             beta [H] and gamma [H], required
//   polynomial          coefficients [H, terms], from the power 0, required
using MechanismParameters = std::vector<std::pair<std::string, at::Tensor>>;

// The lines of attention_options.def, and the mechanism's own arguments.
struct AttentionOptions {
#define ATTENTION_OPTION(type, name, initial) type name = initial;
#include "cogwheel/ops/pairwise/attention_options.def"
  MechanismParameters parameters = {};
};

// query [B, H, N, D], key [B, Hk, M, D], value [B, Hk, M, Dv] → [B, H, N, Dv]; Hk divides H (grouped queries).
// differential, over any map: query [B, 2H, N, D], key [B, 2Hk, M, D], value [B, Hk, M, Dv]; the sub-heads of a head
// are adjacent.
// float32, float64, or bfloat16 and float16, which are computed in float32 and rounded once; 8 ≤ D ≤ 1024, any strides.
// A query that sees no key gives 0, and 0 gradient.
// Differentiable twice in query, key, value, weights of the score, biases, centers and parameters, backward and
// forward; a third derivative throws c10::NotImplementedError, except for dense mechanisms. torch.autocast changes
// nothing. Throws c10::ValueError, one line each.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism = "softmax", const AttentionOptions& options = {});

// The same of the keys of a cache, the first M of those in `panels` (ops/support/key_panels.h); value [B, Hk, M, Dv].
at::Tensor attention_over_panels(const at::Tensor& query, const at::Tensor& panels, const at::Tensor& value,
                                 std::string_view mechanism, const AttentionOptions& options);

// The weights that `attention` applies to the values, [B, H, N, M]: 0 where a key is hidden. Computed by the same
// kernel, with the identity as values. For pictures: time and memory grow with N·M.
at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism = "softmax",
                             const AttentionOptions& options = {});

// The scores of `attention` before the row map, [B, H, N, M], −∞ where a key is hidden; H counts both sub-heads of a
// difference. ALiBi is part of the scores of maps that have no exponent. Of a dense mechanism they are the entries of
// its matrix, scale · q·k.
at::Tensor attention_scores(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism = "softmax",
                            const AttentionOptions& options = {});

// The weights that follow from given scores [B, H, N, M], 0 where they are −∞ or the key is hidden: a row map of each
// row. The options say what is visible, and have the mechanism's parameters and dropout. Differentiable in the scores.
// Throws ValueError for a dense mechanism, and for a difference, whose maps have weights of their own.
at::Tensor attention_weights_of_scores(const at::Tensor& scores, std::string_view mechanism = "softmax",
                                       const AttentionOptions& options = {});

// `attention` and, from the same pass, statistics of the weights of each row: output [B, H, N, Dv], which is
// differentiable as that of `attention`, and statistics [12, B, H, N] without a derivative, in the order of
// attention/kernels/pairwise/row_statistics.h, the last one written only if `argmax`, which counts at most 2²⁴ keys.
// Row maps cost little more than `attention`; mixtures sweep over the scores once more; dense mechanisms compute their
// weights.
std::tuple<at::Tensor, at::Tensor> attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax,
                                                        std::string_view mechanism = "softmax",
                                                        const AttentionOptions& options = {});

}  // namespace cogwheel::ops
