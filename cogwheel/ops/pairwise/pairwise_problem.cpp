#include "cogwheel/ops/pairwise/pairwise_problem.h"

#include <cstdint>
#include <type_traits>

#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"

namespace cogwheel::ops {
namespace {

PairwiseShape shape_of(const PairwiseCall& call) {
  return {.batch = call.query.size(0),
          .query_heads = call.query.size(1),
          .value_heads = call.value.size(1),
          .sub_heads = call.options.sub_heads,
          .queries = call.query.size(2),
          .keys = call.key.size(2),
          .head_dim = call.query.size(3),
          .value_dim = are_identity(call.value) ? call.key.size(2) : call.value.size(3)};
}

// A broadcast bias, as a view of [B, H, N, M].
template <class T>
ScoresView<const T> scores_view(const at::Tensor& bias, const PairwiseShape& shape) {
  const at::Tensor whole = bias.expand({shape.batch, shape.query_heads / shape.sub_heads, shape.queries, shape.keys});
  return {bias.const_data_ptr<T>(), whole.stride(0), whole.stride(1), whole.stride(2), whole.stride(3)};
}

PairwiseVisibility visibility_of_call(const PairwiseOptions& options, const PairwiseShape& shape, HeldOptions& held) {
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
    visibility.ranges = reinterpret_cast<const KeyRange*>(held.ranges.const_data_ptr<std::int64_t>());
    visibility.queries = shape.queries;
    const std::int64_t heads = held.ranges.size(1);
    visibility.batch_stride = held.ranges.size(0) == 1 ? 0 : heads;
    visibility.head_stride = heads == 1 ? 0 : 1;
  }
  return visibility;
}

template <class T>
Modifiers<T> modifiers_of_call(const PairwiseOptions& options, const PairwiseShape& shape, HeldOptions& held) {
  Modifiers<T> modifiers;
  modifiers.softcap = static_cast<T>(options.softcap);
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
    const DropoutSeed from(*options.seed);
    modifiers.seed = from.seed;
    modifiers.part = from.part;
  }
  return modifiers;
}

}  // namespace

template <class T>
HeadsView<T> heads_view(const at::Tensor& tensor) {
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
template HeadsView<float> heads_view(const at::Tensor&);
template HeadsView<const float> heads_view(const at::Tensor&);
template HeadsView<double> heads_view(const at::Tensor&);
template HeadsView<const double> heads_view(const at::Tensor&);

template <class T>
void describe(PairwiseProblem<T>& problem, const PairwiseCall& call, HeldOptions& held) {
  const PairwiseOptions& options = call.options;
  problem.shape = shape_of(call);
  problem.visibility = visibility_of_call(options, problem.shape, held);
  problem.modifiers = modifiers_of_call<T>(options, problem.shape, held);
  problem.scale = static_cast<T>(options.scale);
  problem.parameters = call.parameters.numel() == 0 ? nullptr : call.parameters.const_data_ptr<double>();
  if (options.score_weight) {
    held.score_weight = options.score_weight->contiguous();
    problem.score_weight = held.score_weight.const_data_ptr<T>();
  }
  problem.identity_values = are_identity(call.value);
  problem.query = heads_view<const T>(call.query);
  problem.key = heads_view<const T>(call.key);
  problem.value = heads_view<const T>(call.value);
  if (call.key_panels.defined())
    problem.key_panels = KeyPanels<T>(heads_view<const T>(call.key_panels), problem.shape.head_dim);
}
template void describe(PairwiseProblem<float>&, const PairwiseCall&, HeldOptions&);
template void describe(PairwiseProblem<double>&, const PairwiseCall&, HeldOptions&);

}  // namespace cogwheel::ops
