// The one place that spells out the arguments of cogwheel::pairwise as its schema has them. Kernels take them bundled.
#pragma once
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

inline constexpr const char* pairwise_schema =
    "pairwise(Tensor query, Tensor key, Tensor value, Tensor parameters, str mechanism, float scale, str mask, "
    "int window, int sub_heads, Tensor? key_lengths, Tensor? ranges, Tensor? bias, Tensor? energy_bias, Tensor? alibi, "
    "Tensor? centers, float sigma, float dropout, Tensor? seed, Tensor? score_weight, bool wide_output=False, "
    "Tensor? first_positions=None, bool statistics=False, bool argmax=False) -> "
    "(Tensor output, Tensor shift, Tensor mass, Tensor statistics)";

inline constexpr const char* pairwise_backward_schema =
    "pairwise_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor parameters, Tensor output, "
    "Tensor shift, Tensor mass, str mechanism, bool bias_wanted, bool energy_bias_wanted, bool centers_wanted, "
    "float scale, str mask, int window, int sub_heads, Tensor? key_lengths, Tensor? ranges, Tensor? bias, "
    "Tensor? energy_bias, Tensor? alibi, Tensor? centers, float sigma, float dropout, Tensor? seed, "
    "Tensor? score_weight, Tensor? first_positions=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
    "Tensor)";

inline constexpr const char* mixture_statistics_schema =
    "mixture_statistics(Tensor query, Tensor key, Tensor value, Tensor parameters, Tensor shift, Tensor mass, "
    "Tensor? coefficient, str mechanism, float scale, str mask, int window, int sub_heads, Tensor? key_lengths, "
    "Tensor? ranges, Tensor? bias, Tensor? energy_bias, Tensor? alibi, Tensor? centers, float sigma, float dropout, "
    "Tensor? seed, Tensor? score_weight, bool argmax, Tensor? first_positions=None) -> Tensor";

using OptionalTensor = std::optional<at::Tensor>;

// A kernel with bundled options, as the dispatcher calls it.
template <PairwiseOutputs (*kernel)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                    std::string_view, const PairwiseOptions&)>
PairwiseOutputs unbundled(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& parameters, c10::string_view mechanism, double scale, c10::string_view mask,
                          std::int64_t window, std::int64_t sub_heads, const OptionalTensor& key_lengths,
                          const OptionalTensor& ranges, const OptionalTensor& bias, const OptionalTensor& energy_bias,
                          const OptionalTensor& alibi, const OptionalTensor& centers, double sigma, double dropout,
                          const OptionalTensor& seed, const OptionalTensor& score_weight, bool wide_output,
                          const OptionalTensor& first_positions, bool statistics, bool argmax) {
  return kernel(query, key, value, parameters, mechanism,
                {scale, mask, window, sub_heads, key_lengths, ranges, bias, energy_bias, alibi, centers, sigma, dropout,
                 seed, score_weight, wide_output, first_positions, statistics, argmax});
}

template <PairwiseGradients (*kernel)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                      const at::Tensor&, const PairwiseSaved&, std::string_view, const WantedGradients&,
                                      const PairwiseOptions&)>
PairwiseGradients unbundled_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const at::Tensor& parameters, const at::Tensor& output,
                                     const at::Tensor& shift, const at::Tensor& mass, c10::string_view mechanism,
                                     bool bias_wanted, bool energy_bias_wanted, bool centers_wanted, double scale,
                                     c10::string_view mask, std::int64_t window, std::int64_t sub_heads,
                                     const OptionalTensor& key_lengths, const OptionalTensor& ranges,
                                     const OptionalTensor& bias, const OptionalTensor& energy_bias,
                                     const OptionalTensor& alibi, const OptionalTensor& centers, double sigma,
                                     double dropout, const OptionalTensor& seed, const OptionalTensor& score_weight,
                                     const OptionalTensor& first_positions) {
  return kernel(gradient, query, key, value, parameters, {output, shift, mass}, mechanism,
                {bias_wanted, energy_bias_wanted, centers_wanted},
                {scale, mask, window, sub_heads, key_lengths, ranges, bias, energy_bias, alibi, centers, sigma, dropout,
                 seed, score_weight, false, first_positions});
}

template <at::Tensor (*kernel)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const MixtureMembers&, std::string_view, const PairwiseOptions&)>
at::Tensor unbundled_members(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const at::Tensor& parameters, const at::Tensor& shift, const at::Tensor& mass,
                             const OptionalTensor& coefficient, c10::string_view mechanism, double scale,
                             c10::string_view mask, std::int64_t window, std::int64_t sub_heads,
                             const OptionalTensor& key_lengths, const OptionalTensor& ranges,
                             const OptionalTensor& bias, const OptionalTensor& energy_bias, const OptionalTensor& alibi,
                             const OptionalTensor& centers, double sigma, double dropout, const OptionalTensor& seed,
                             const OptionalTensor& score_weight, bool argmax, const OptionalTensor& first_positions) {
  return kernel(query, key, value, parameters, {shift, mass, coefficient}, mechanism,
                {.scale = scale,
                 .mask = mask,
                 .window = window,
                 .sub_heads = sub_heads,
                 .key_lengths = key_lengths,
                 .ranges = ranges,
                 .bias = bias,
                 .energy_bias = energy_bias,
                 .alibi = alibi,
                 .centers = centers,
                 .sigma = sigma,
                 .dropout = dropout,
                 .seed = seed,
                 .score_weight = score_weight,
                 .first_positions = first_positions,
                 .argmax = argmax});
}

using PairwiseSignature = decltype(unbundled<pairwise>);
using MixtureStatisticsSignature = decltype(unbundled_members<mixture_statistics>);
using PairwiseBackwardSignature = decltype(unbundled_backward<pairwise_backward>);

}  // namespace cogwheel
