// Attention as libtorch operators: checked, differentiable, with shapes as in torch's scaled_dot_product_attention.
// The same functions stand in torch.ops.cogwheel for Python and torch.compile.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cogwheel {

// The mechanism's own arguments by name, as the catalogue lists them; H counts query heads, of a difference of two maps
// both sub-heads of each:
//   differential        lam, λ, [output heads] or broadcastable to [B, output heads, N], required, over any map
//   softmax_off_by_one  sink [H], 0 unless given
//   sigmoid             shift [H], −log(visible keys) unless given
//   consmax             beta [H] and gamma [H], required
//   polynomial          coefficients [H, terms], from the power 0, required
using MechanismParameters = std::vector<std::pair<std::string, at::Tensor>>;

struct AttentionOptions {
  bool causal = false;  // the last query sees the last key, also where queries ≠ keys
  // 1/√head_dim unless given, for scores that are products, else 1; norm has none.
  std::optional<double> scale = {};

  // What a query and a key make before the row map: dot, general, cosine, additive or concat (scores.h has formulas and
  // the shapes of the weights).
  std::string score = "dot";
  std::optional<at::Tensor> score_weight = {}, score_projection = {};

  // The last keys that a causal query sees, itself included.
  std::optional<std::int64_t> window = {};

  // [B] int64: keys at and beyond the length of their batch entry are hidden; the causal diagonal stays where the sizes
  // of query and key put it.
  std::optional<at::Tensor> key_lengths = {};

  // [B] int64, where causal: query i of batch entry b stands at key first_positions[b] + i, whatever the sizes of query
  // and key. What a cache needs whose entries differ in length.
  std::optional<at::Tensor> first_positions = {};

  // [S + 1] int32 or int64, from 0 to N, never falling: sequence s is rows cu_seqlens[s] to cu_seqlens[s + 1] of a
  // batch of one, and sees only itself.
  std::optional<at::Tensor> cu_seqlens = {};

  // Broadcastable to [B, H, N, M], in the dtype of query or the one it is computed in, differentiable. `bias` adds to
  // the scores, `energy_bias` to the exponent of maps that have one (for Cog to |s|). −∞ hides the key.
  std::optional<at::Tensor> bias = {}, energy_bias = {};

  // [H] slopes, constants: less slope·distance, on the exponent of maps that have one and on the score of others.
  // Press et al., "Train Short, Test Long" (2022).
  std::optional<at::Tensor> alibi = {};

  // Keys within `local_radius` of a center. Luong et al. (2015): local-m without `local_centers`, around the query's
  // own position (the diagonal, where causal; else key i of query i); local-p with p_t [B, H, N], whose weights are
  // also multiplied by exp(−(j − p_t)²/(2σ²)), σ = local_radius/2, and which has a gradient.
  std::optional<double> local_radius = {};
  std::optional<at::Tensor> local_centers = {};

  // Each weight is dropped with this probability, the others divided by 1 − dropout, after sign and normaliser. The
  // sub-heads of a mixture drop alike. `seed`, one int64, decides which.
  double dropout = 0;
  std::optional<at::Tensor> seed = {};

  MechanismParameters parameters = {};
};

// query [B, H, N, D], key [B, Hk, M, D], value [B, Hk, M, Dv] → [B, H, N, Dv]; Hk divides H (grouped queries).
// differential, over any map: query [B, 2H, N, D], key [B, 2Hk, M, D], value [B, Hk, M, Dv]; the sub-heads of a head
// are adjacent.
// float32, float64, or bfloat16 and float16, which are computed in float32 and rounded once; 8 ≤ D ≤ 256, any strides.
// A query that sees no key gives 0, and 0 gradient.
// Differentiable twice in query, key, value, weights of the score, biases, centers and parameters, backward and
// forward; a third derivative throws c10::NotImplementedError, but of dense forms. torch.autocast changes nothing.
// Throws c10::ValueError, one line each.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism = "softmax", const AttentionOptions& options = {});

// The weights that `attention` applies to the values, [B, H, N, M]: 0 where a key is hidden. Made by the same kernel,
// with the identity for values. For pictures: time and memory grow with N·M.
at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism = "softmax",
                             const AttentionOptions& options = {});

// `attention` and, from the same pass, what the weights of each row come to: output [B, H, N, Dv], which is
// differentiable as that of `attention`, and statistics [8, B, H, N] without a derivative, in the order of
// kernels/row_statistics.h, the last one written only if `argmax`, which counts at most 2²⁴ keys. Row maps cost little
// more than `attention`; mixtures sweep over the scores once more; dense forms make their weights.
std::tuple<at::Tensor, at::Tensor> attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax,
                                                        std::string_view mechanism = "softmax",
                                                        const AttentionOptions& options = {});

}  // namespace cogwheel
