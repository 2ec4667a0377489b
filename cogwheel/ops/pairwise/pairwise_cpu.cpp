// cogwheel::pairwise on the CPU: the fused kernels.
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/sum_in_order.h"

namespace cogwheel {
namespace {

// T is const for inputs.
template <class T>
HeadsView<T> view(const at::Tensor& tensor) {
  const auto as = [&]<class Element>(std::type_identity<Element>) -> HeadsView<T> {
    using Pointer = std::conditional_t<std::is_const_v<T>, const Element, Element>*;
    return {static_cast<Pointer>(const_cast<void*>(tensor.const_data_ptr())), tensor.stride(0), tensor.stride(1),
            tensor.stride(2)};
  };
  if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
    if (tensor.scalar_type() == at::kBFloat16) return as(std::type_identity<BFloat16>());
    if (tensor.scalar_type() == at::kHalf) return as(std::type_identity<Float16>());
  }
  return as(std::type_identity<T>());
}

template <class T>
RowStatistics<T> statistics_in(const at::Tensor& tensor, bool argmax) {
  return {tensor.mutable_data_ptr<T>(), tensor.numel() / RowStatistics<T>::count, argmax};
}

PairwiseShape shape_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       std::int64_t sub_heads) {
  return {.batch = query.size(0),
          .query_heads = query.size(1),
          .value_heads = value.size(1),
          .sub_heads = sub_heads,
          .queries = query.size(2),
          .keys = key.size(2),
          .head_dim = query.size(3),
          .value_dim = are_identity(value) ? key.size(2) : value.size(3)};
}

// Owns the memory behind the engine's pointers for the duration of a call.
struct HeldOptions {
  at::Tensor key_lengths, first_positions, ranges, seen_by, bias, energy_bias, alibi, centers, score_weight;
};

// A broadcast bias, as a view of [B, H, N, M].
template <class T>
ScoresView<const T> scores_view(const at::Tensor& bias, const PairwiseShape& shape) {
  const at::Tensor whole = bias.expand({shape.batch, shape.query_heads / shape.sub_heads, shape.queries, shape.keys});
  return {bias.const_data_ptr<T>(), whole.stride(0), whole.stride(1), whole.stride(2), whole.stride(3)};
}

// The inverse of every table of ranges, [tables][keys] pairs.
at::Tensor inverse_of(const at::Tensor& ranges, std::int64_t queries, std::int64_t keys) {
  const std::int64_t tables = ranges.numel() / std::max<std::int64_t>(2 * queries, 1);
  const auto* range = reinterpret_cast<const KeyRange*>(ranges.const_data_ptr<std::int64_t>());
  const at::Tensor inverse = at::empty({tables, keys, 2}, ranges.options());
  auto* seen_by = reinterpret_cast<QueryRange*>(inverse.mutable_data_ptr<std::int64_t>());
  std::vector<std::int64_t> next(static_cast<std::size_t>(keys + 1));
  for (std::int64_t t = 0; t < tables; ++t) invert(range + t * queries, queries, keys, next.data(), seen_by + t * keys);
  return inverse;
}

PairwiseVisibility describe_visibility(const PairwiseOptions& options, const PairwiseShape& shape, HeldOptions& held) {
  PairwiseVisibility visibility;
  visibility.rule = visibility_of(options.mask, shape.queries, shape.keys);
  visibility.rule.window = options.window;
  if (options.key_lengths) {
    held.key_lengths = options.key_lengths->contiguous();
    visibility.key_lengths = held.key_lengths.const_data_ptr<std::int64_t>();
  }
  if (options.first_positions) {
    held.first_positions = options.first_positions->contiguous();
    visibility.first_positions = held.first_positions.const_data_ptr<std::int64_t>();
  }
  if (options.ranges) {
    held.ranges = options.ranges->contiguous();
    held.seen_by = inverse_of(held.ranges, shape.queries, shape.keys);
    visibility.ranges = reinterpret_cast<const KeyRange*>(held.ranges.const_data_ptr<std::int64_t>());
    visibility.seen_by = reinterpret_cast<const QueryRange*>(held.seen_by.const_data_ptr<std::int64_t>());
    visibility.queries = shape.queries;
    const std::int64_t heads = held.ranges.size(1);
    visibility.batch_stride = held.ranges.size(0) == 1 ? 0 : heads;
    visibility.head_stride = heads == 1 ? 0 : 1;
  }
  return visibility;
}

template <class T>
Modifiers<T> describe_modifiers(const PairwiseOptions& options, const PairwiseShape& shape, HeldOptions& held) {
  Modifiers<T> modifiers;
  if (options.bias) {
    held.bias = *options.bias;
    modifiers.bias = scores_view<T>(held.bias, shape);
  }
  if (options.energy_bias) {
    held.energy_bias = *options.energy_bias;
    modifiers.energy_bias = scores_view<T>(held.energy_bias, shape);
  }
  if (options.alibi) {
    held.alibi = options.alibi->contiguous();
    modifiers.alibi = held.alibi.const_data_ptr<double>();
    modifiers.alibi_diagonal = shape.keys - shape.queries;
  }
  if (options.centers) {
    held.centers = options.centers->contiguous();
    modifiers.centers = held.centers.const_data_ptr<T>();
    modifiers.sigma = options.sigma;
  }
  if (options.dropout > 0) {
    modifiers.dropout = options.dropout;
    modifiers.seed = static_cast<std::uint64_t>(options.seed->item<std::int64_t>());
  }
  return modifiers;
}

template <class T, class Problem>
void describe(Problem& problem, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const at::Tensor& parameters, const PairwiseOptions& options, HeldOptions& held) {
  problem.shape = shape_of(query, key, value, options.sub_heads);
  problem.visibility = describe_visibility(options, problem.shape, held);
  problem.modifiers = describe_modifiers<T>(options, problem.shape, held);
  problem.scale = static_cast<T>(options.scale);
  problem.parameters = parameters.numel() == 0 ? nullptr : parameters.const_data_ptr<double>();
  if (options.score_weight) {
    held.score_weight = options.score_weight->contiguous();
    problem.score_weight = held.score_weight.const_data_ptr<T>();
  }
  problem.identity_values = are_identity(value);
  problem.query = view<const T>(query);
  problem.key = view<const T>(key);
  problem.value = view<const T>(value);
}

PairwiseOutputs forward_cpu(const at::Tensor& query_, const at::Tensor& key_, const at::Tensor& value_,
                            const at::Tensor& parameters_, std::string_view mechanism, const PairwiseOptions& options,
                            const WantedOutputs& wanted) {
  check_engine_choice();
  check_heads_of_values(query_, key_, value_, options.sub_heads);
  check_options(query_, key_, options);
  const at::Tensor query = with_contiguous_width(query_), key = with_contiguous_width(key_),
                   value = with_contiguous_width(value_), parameters = parameters_.contiguous();
  at::Tensor output = empty_output(query_, key_, value_, wanted.wide), shift = empty_totals(query_),
             mass = empty_totals(query_), statistics = empty_statistics(query_, query_.size(1), wanted.statistics);
  if (output.numel() == 0) return {output, shift, mass, statistics};
  AT_DISPATCH_FLOATING_TYPES(computed_type(query), "cogwheel::pairwise", [&] {
    PairwiseForward<scalar_t> problem;
    HeldOptions held;
    describe<scalar_t>(problem, query, key, value, parameters, options, held);
    problem.output = view<scalar_t>(output);
    problem.shift = shift.mutable_data_ptr<scalar_t>();
    problem.mass = mass.mutable_data_ptr<scalar_t>();
    if (wanted.statistics) problem.statistics = statistics_in<scalar_t>(statistics, wanted.argmax);
    pairwise_kernel<scalar_t>(mechanism).forward(problem, TorchExecutor());
  });
  return {output, shift, mass, statistics};
}

at::Tensor mixture_statistics_cpu(const at::Tensor& query_, const at::Tensor& key_, const at::Tensor& value,
                                  const at::Tensor& parameters_, const MixtureMembers& members,
                                  std::string_view mechanism, const PairwiseOptions& options, bool argmax) {
  check_heads_of_values(query_, key_, value, options.sub_heads);
  check_options(query_, key_, options);
  check_members(members, query_, options.sub_heads);
  const at::Tensor query = with_contiguous_width(query_), key = with_contiguous_width(key_),
                   parameters = parameters_.contiguous(), shift = members.shift.contiguous(),
                   mass = members.mass.contiguous();
  const at::Tensor statistics = empty_statistics(query, query.size(1) / options.sub_heads, true);
  if (statistics.numel() == 0) return statistics;
  at::Tensor coefficient;
  if (members.coefficient)
    coefficient =
        members.coefficient->expand({query.size(0), query.size(1) / options.sub_heads, query.size(2)}).contiguous();
  AT_DISPATCH_FLOATING_TYPES(computed_type(query), "cogwheel::mixture_statistics", [&] {
    MixtureStatistics<scalar_t> problem;
    HeldOptions held;
    describe<scalar_t>(problem, query, key, with_contiguous_width(value), parameters, options, held);
    problem.shift = shift.const_data_ptr<scalar_t>();
    problem.mass = mass.const_data_ptr<scalar_t>();
    if (members.coefficient) problem.coefficient = coefficient.const_data_ptr<scalar_t>();
    problem.statistics = statistics_in<scalar_t>(statistics, argmax);
    pairwise_kernel<scalar_t>(mechanism).mixture_statistics(problem, TorchExecutor());
  });
  return statistics;
}

PairwiseGradients backward_cpu(const at::Tensor& gradient_, const at::Tensor& query_, const at::Tensor& key_,
                               const at::Tensor& value_, const at::Tensor& parameters_, const PairwiseSaved& saved,
                               std::string_view mechanism, const WantedGradients& wanted,
                               const PairwiseOptions& options) {
  check_heads_of_values(query_, key_, value_, options.sub_heads);
  check_options(query_, key_, options);
  check_saved(gradient_, query_, saved);
  const at::Tensor gradient = with_contiguous_width(gradient_), query = with_contiguous_width(query_),
                   key = with_contiguous_width(key_), value = with_contiguous_width(value_),
                   output = with_contiguous_width(saved.output), shift = saved.shift.contiguous(),
                   mass = saved.mass.contiguous(), parameters = parameters_.contiguous();
  at::Tensor query_gradient = at::empty_like(query), key_gradient = at::empty_like(key),
             value_gradient = at::empty_like(value), parameter_gradient = at::zeros_like(parameters);
  // A broadcast input has gradients of its full size.
  for (at::Tensor* each : {&query_gradient, &key_gradient, &value_gradient}) *each = with_contiguous_width(*each);
  at::Tensor bias_gradient = empty_modifier_gradient(wanted.bias, options.bias, query),
             energy_bias_gradient = empty_modifier_gradient(wanted.energy_bias, options.energy_bias, query),
             center_gradient = empty_modifier_gradient(wanted.centers, options.centers, query),
             score_weight_gradient = empty_modifier_gradient(wanted.score_weight, options.score_weight, query);
  if (output.numel() == 0 || key.numel() == 0) {
    for (const at::Tensor& each : {query_gradient, key_gradient, value_gradient, bias_gradient, energy_bias_gradient,
                                   center_gradient, score_weight_gradient})
      each.zero_();
    return {query_gradient, key_gradient,         value_gradient,  parameter_gradient,
            bias_gradient,  energy_bias_gradient, center_gradient, score_weight_gradient};
  }
  // For each query head and key, before it is summed to the sizes of the bias.
  const auto whole = [&](bool needed) {
    return needed ? at::zeros({query.size(0), query.size(1), query.size(2), key.size(2)}, computed_options(query))
                  : at::Tensor();
  };
  const at::Tensor whole_bias = whole(wanted.bias), whole_energy_bias = whole(wanted.energy_bias);
  const at::Tensor whole_centers =
      wanted.centers ? at::empty({query.size(0), query.size(1), query.size(2), 1}, parameters.options()) : at::Tensor();
  // A by-product of the key's gradient, needed or not.
  const at::Tensor whole_score_weight =
      options.score_weight ? at::zeros(options.score_weight->sizes(), query.options().dtype(at::kDouble))
                           : at::Tensor();
  AT_DISPATCH_FLOATING_TYPES(computed_type(query), "cogwheel::pairwise_backward", [&] {
    PairwiseBackward<scalar_t> problem;
    HeldOptions held;
    describe<scalar_t>(problem, query, key, value, parameters, options, held);
    problem.output = view<const scalar_t>(output);
    problem.output_gradient = view<const scalar_t>(gradient);
    problem.shift = shift.const_data_ptr<scalar_t>();
    problem.mass = mass.const_data_ptr<scalar_t>();
    problem.query_gradient = view<scalar_t>(query_gradient);
    problem.key_gradient = view<scalar_t>(key_gradient);
    problem.value_gradient = view<scalar_t>(value_gradient);
    problem.parameter_gradient = parameters.numel() == 0 ? nullptr : parameter_gradient.mutable_data_ptr<double>();
    if (options.score_weight) problem.score_weight_gradient = whole_score_weight.mutable_data_ptr<double>();
    if (wanted.bias) problem.bias_gradient = whole_bias.mutable_data_ptr<scalar_t>();
    if (wanted.energy_bias) problem.energy_bias_gradient = whole_energy_bias.mutable_data_ptr<scalar_t>();
    if (wanted.centers) problem.center_gradient = whole_centers.mutable_data_ptr<double>();
    pairwise_kernel<scalar_t>(mechanism).backward(problem, TorchExecutor());
  });
  if (wanted.bias) bias_gradient = sum_in_order(whole_bias, options.sub_heads, options.bias->sizes());
  if (wanted.energy_bias)
    energy_bias_gradient = sum_in_order(whole_energy_bias, options.sub_heads, options.energy_bias->sizes());
  if (wanted.centers)
    center_gradient = sum_in_order(whole_centers, options.sub_heads,
                                   {query.size(0), query.size(1) / options.sub_heads, query.size(2), 1})
                          .squeeze(-1)
                          .to(computed_type(query));
  if (wanted.score_weight) score_weight_gradient = whole_score_weight.to(computed_type(query));
  return {query_gradient, key_gradient,         value_gradient,  parameter_gradient,
          bias_gradient,  energy_bias_gradient, center_gradient, score_weight_gradient};
}

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  implement_fused(library, "pairwise", Unbundled<forward_cpu>::call);
  implement_fused(library, "pairwise_backward", Unbundled<backward_cpu>::call);
  implement_fused(library, "mixture_statistics", Unbundled<mixture_statistics_cpu>::call);
}

}  // namespace cogwheel
