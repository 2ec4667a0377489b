// The one place that spells out the options of cogwheel::attention as its schema has them. Functions take them bundled.
#pragma once
#include <c10/util/string_view.h>

#include <type_traits>

#include "cogwheel/ops/attention.h"

namespace cogwheel {

// What follows the tensors in a schema, up to what it returns.
inline constexpr const char* attention_options_schema =
    "str mechanism, *, bool causal=False, float? scale=None, int? window=None, Tensor? key_lengths=None, "
    "Tensor? cu_seqlens=None, Tensor? bias=None, Tensor? energy_bias=None, Tensor? alibi=None, "
    "float? local_radius=None, Tensor? local_centers=None, float dropout=0.0, Tensor? seed=None, str score=\"dot\", "
    "Tensor? score_weight=None, Tensor? score_projection=None, Tensor[] parameters, str[] parameter_names)";

// Throws ValueError unless there are as many names as tensors.
MechanismParameters named_parameters(at::TensorList tensors, const std::vector<std::string>& names);

// How the dispatcher passes an argument.
template <class Argument>
using Passed =
    std::conditional_t<std::is_same_v<Argument, at::Tensor> || std::is_same_v<Argument, std::optional<at::Tensor>>,
                       const Argument&, Argument>;

// A function of tensors (and flags), a mechanism and options, as the dispatcher calls it.
template <class... Leading>
struct UnbundledOptions {
  using OptionalTensor = std::optional<at::Tensor>;

  template <auto function>
  static auto call(Passed<Leading>... leading, c10::string_view mechanism, bool causal, std::optional<double> scale,
                   std::optional<std::int64_t> window, const OptionalTensor& key_lengths,
                   const OptionalTensor& cu_seqlens, const OptionalTensor& bias, const OptionalTensor& energy_bias,
                   const OptionalTensor& alibi, std::optional<double> local_radius, const OptionalTensor& local_centers,
                   double dropout, const OptionalTensor& seed, c10::string_view score,
                   const OptionalTensor& score_weight, const OptionalTensor& score_projection,
                   at::TensorList parameters, const std::vector<std::string>& parameter_names) {
    return function(leading..., mechanism,
                    {.causal = causal,
                     .scale = scale,
                     .score = std::string(score),
                     .score_weight = score_weight,
                     .score_projection = score_projection,
                     .window = window,
                     .key_lengths = key_lengths,
                     .cu_seqlens = cu_seqlens,
                     .bias = bias,
                     .energy_bias = energy_bias,
                     .alibi = alibi,
                     .local_radius = local_radius,
                     .local_centers = local_centers,
                     .dropout = dropout,
                     .seed = seed,
                     .parameters = named_parameters(parameters, parameter_names)});
  }
};

}  // namespace cogwheel
