// The operators beneath `attention`: one row map of the catalogue, checked shapes, autograd.
//
//   cogwheel::pairwise(query, key, value, parameters, mechanism, …options) → (output, shift, mass, statistics)
//   cogwheel::pairwise_backward(…) → gradients of query, key, value, parameters, bias, energy_bias, centers,
//   score_weight
//   cogwheel::mixture_statistics(…) → statistics of the weights of a mixture: of two sub-heads, or of one minus the
//   mean
//
// parameters [Hq, P] in float64: the map's P learnable scalars for each query head (P is 0 for most). query [B, Hq, N,
// D], key [B, Hv·sub_heads, M, D] or, forward, in panels (ops/support/key_panels.h), value [B, Hv, M, Dv], or without
// columns (Dv = 0), which stands for the identity: the output is then the weights [B, Hq, N, M]; shift and mass are m
// and G of each row [B, Hq, N] (the table in attention/mechanisms/contract.h names them), which backward needs and
// which have no gradient; statistics are [8, B, Hq, N] where they are wanted
// (attention/kernels/pairwise/row_statistics.h), else empty, and have no gradient either. H = Hq / sub_heads are the
// heads of the output.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "cogwheel/core/visibility.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// The values of `mask`: which keys a query sees.
namespace mask {
inline constexpr std::string_view full = "full";
inline constexpr std::string_view causal = "causal";  // the last query sees the last key
inline constexpr std::string_view causal_first =
    "causal_first";  // the first query sees just the first key, as in torch
}  // namespace mask

// The lines of pairwise_options.def.
struct PairwiseOptions {
#define PAIRWISE_OPTION(type, name, initial) type name = type(initial);
#define PAIRWISE_DIFFERENTIABLE(name, extent) std::optional<at::Tensor> name = {};
#define PAIRWISE_TENSOR(name) std::optional<at::Tensor> name = {};
#include "cogwheel/ops/pairwise/pairwise_options.def"
};

// What forward returns.
struct WantedOutputs {
  bool wide = false;        // the output of 16-bit queries in float32, the compute dtype, for further computation
  bool statistics = false;  // of the weights of each row
  bool argmax = false;      // and the index of the largest
};

// Which of the differentiable options need a gradient.
struct WantedGradients {
#define PAIRWISE_DIFFERENTIABLE(name, extent) bool name = false;
#include "cogwheel/ops/pairwise/pairwise_options.def"
};

// Throws ValueError for any other name.
Visibility visibility_of(std::string_view mask, std::int64_t queries, std::int64_t keys);

using PairwiseOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Of query, key, value, parameters and the differentiable options, in the order of their list. Those that are not
// wanted are empty.
#define PAIRWISE_DIFFERENTIABLE(name, extent) , at::Tensor
using PairwiseGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor
#include "cogwheel/ops/pairwise/pairwise_options.def"
                                     >;

// Results of forward that backward needs.
struct PairwiseSaved {
  at::Tensor output, shift, mass;
};

// The row totals of a mixture's members, and the factor c of the second: the weights are a₁ + c a₂ for two sub-heads,
// or with one sub-head and no factor a − 1/n over the n visible keys.
struct MixtureMembers {
  at::Tensor shift, mass;                 // [B, Hq, N]
  std::optional<at::Tensor> coefficient;  // broadcastable to [B, H, N]
};

// Whether values stand for the identity.
inline bool are_identity(const at::Tensor& value) { return value.sym_size(3) == 0; }

// Dispatches cogwheel::pairwise, or calls its kernel where the dispatcher would only do that.
PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& parameters, std::string_view mechanism, const PairwiseOptions& options,
                         const WantedOutputs& wanted = {});

// Its kernel on any device, without derivatives.
PairwiseOutputs pairwise_on_device(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const at::Tensor& parameters, std::string_view mechanism,
                                   const PairwiseOptions& options, const WantedOutputs& wanted);

// Dispatches cogwheel::pairwise_backward.
PairwiseGradients pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved& saved,
                                    std::string_view mechanism, const WantedGradients& wanted,
                                    const PairwiseOptions& options);

// Dispatches cogwheel::mixture_statistics: [8, B, H, N], without a derivative. Only the heads of `value` matter.
at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& parameters, const MixtureMembers& members, std::string_view mechanism,
                              const PairwiseOptions& options, bool argmax);

template <>
struct Bundle<PairwiseOptions> {
#define PAIRWISE_OPTION(type, name, initial) Member{#name, &PairwiseOptions::name},
#define PAIRWISE_DIFFERENTIABLE(name, extent) Member{#name, &PairwiseOptions::name},
#define PAIRWISE_TENSOR(name) Member{#name, &PairwiseOptions::name},
  static constexpr auto members = std::tuple{
#include "cogwheel/ops/pairwise/pairwise_options.def"
  };
};

template <>
struct Bundle<WantedOutputs> {
  static constexpr auto members =
      std::tuple{Member{"wide_output", &WantedOutputs::wide}, Member{"statistics", &WantedOutputs::statistics},
                 Member{"argmax", &WantedOutputs::argmax}};
};

template <>
struct Bundle<WantedGradients> {
#define PAIRWISE_DIFFERENTIABLE(name, extent) Member{#name "_wanted", &WantedGradients::name},
  static constexpr auto members = std::tuple{
#include "cogwheel/ops/pairwise/pairwise_options.def"
  };
};

template <>
struct Bundle<PairwiseSaved> {
  static constexpr auto members =
      std::tuple{Member{"output", &PairwiseSaved::output}, Member{"shift", &PairwiseSaved::shift},
                 Member{"mass", &PairwiseSaved::mass}};
};

template <>
struct Bundle<MixtureMembers> {
  static constexpr auto members =
      std::tuple{Member{"shift", &MixtureMembers::shift}, Member{"mass", &MixtureMembers::mass},
                 Member{"coefficient", &MixtureMembers::coefficient}};
};

}  // namespace cogwheel::ops
