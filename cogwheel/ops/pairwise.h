// The operators beneath `attention`: one row map of the catalogue, checked shapes, autograd.
//
//   cogwheel::pairwise(query, key, value, parameters, mechanism, …options) → (output, shift, mass, statistics)
//   cogwheel::pairwise_backward(…) → gradients of query, key, value, parameters, bias, energy_bias, centers,
//   score_weight
//   cogwheel::mixture_statistics(…) → statistics of the weights that a mixture makes of two sub-heads, or of one less
//   the mean
//
// parameters [Hq, P] in float64: the map's P learnable scalars for each query head (P is 0 for most). query [B, Hq, N,
// D], key [B, Hv·sub_heads, M, D], value [B, Hv, M, Dv]; shift and mass are the rows' totals [B, Hq, N], which backward
// needs and which have no gradient of their own; statistics are [8, B, Hq, N] where they are wanted
// (kernels/row_statistics.h), else empty, and have no gradient either. H = Hq / sub_heads are the heads of the output.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "cogwheel/core/visibility.h"

namespace cogwheel {

// How `mask` names what a query sees.
namespace mask {
inline constexpr std::string_view full = "full";
inline constexpr std::string_view causal = "causal";  // the last query sees the last key
inline constexpr std::string_view causal_first =
    "causal_first";  // the first query sees just the first key, as in torch
}  // namespace mask

// A new one goes into the schemas (pairwise_schema.h), and a tensor among the places of dense_pairwise.h;
// tests/python/test_pairwise_options.py then asks for a case.
struct PairwiseOptions {
  double scale = 1;
  std::string_view mask = mask::full;
  std::int64_t window = 0;  // the last keys that a causal query sees; 0: all
  std::int64_t sub_heads = 1;
  std::optional<at::Tensor> key_lengths = {};  // [B] int64
  std::optional<at::Tensor> ranges =
      {};                               // [B or 1, H or 1, N, 2] int64: keys [begin, end), in place of mask and window
  std::optional<at::Tensor> bias = {};  // broadcastable to [B, H, N, M]
  std::optional<at::Tensor> energy_bias = {};  // broadcastable to [B, H, N, M]
  std::optional<at::Tensor> alibi = {};        // [H] float64
  std::optional<at::Tensor> centers = {};      // [B, H, N], of Gaussians of width sigma
  double sigma = 1;
  double dropout = 0;
  std::optional<at::Tensor> seed = {};          // of dropout, one int64
  std::optional<at::Tensor> score_weight = {};  // v [Hq, D]: the score is scale · v·tanh(q + k), without it scale · q·k
  // Of forward: the output of 16-bit queries in float32, in which it is computed, for what is still to be made of it.
  bool wide_output = false;
  // [B] int64, for a causal mask: query i of batch entry b stands at key first_positions[b] + i.
  std::optional<at::Tensor> first_positions = {};
  // Of forward: what the weights of a row come to.
  bool statistics = false, argmax = false;
};

// Throws ValueError for any other name.
Visibility visibility_of(std::string_view mask, std::int64_t queries, std::int64_t keys);

using PairwiseOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// In the order query, key, value, parameters, bias, energy_bias, centers, score_weight. Those of biases and centers are
// empty unless wanted, that of score_weight where there is none.
using PairwiseGradients =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Which of bias, energy_bias and centers need a gradient.
struct WantedGradients {
  bool bias = false, energy_bias = false, centers = false;
};

// What forward leaves to backward.
struct PairwiseSaved {
  at::Tensor output, shift, mass;
};

// What the members of a mixture have left of their rows, and the factor c of the second: the weights are
// a₁ + c a₂ of two sub-heads, or with one sub-head and no factor a − 1/n over the n keys that are seen.
struct MixtureMembers {
  at::Tensor shift, mass;                 // [B, Hq, N]
  std::optional<at::Tensor> coefficient;  // broadcastable to [B, H, N]
};

// Dispatches cogwheel::pairwise.
PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& parameters, std::string_view mechanism, const PairwiseOptions& options);

// Dispatches cogwheel::pairwise_backward.
PairwiseGradients pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved& saved,
                                    std::string_view mechanism, const WantedGradients& wanted,
                                    const PairwiseOptions& options);

// Dispatches cogwheel::mixture_statistics: [8, B, H, N], without a derivative. Of the value only the heads matter.
at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& parameters, const MixtureMembers& members, std::string_view mechanism,
                              const PairwiseOptions& options);

}  // namespace cogwheel
