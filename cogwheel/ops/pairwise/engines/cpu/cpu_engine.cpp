// The CPU's engine: kernels of attention/kernels/pairwise/cpu/ for every call.
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/pairwise/pairwise_problem.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/sum_in_order.h"

namespace cogwheel::ops {
namespace {

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

template <class T>
void describe_whole(PairwiseProblem<T>& problem, const PairwiseCall& call, HeldOptions& held) {
  describe(problem, call, held);
  if (!held.ranges.defined()) return;
  held.seen_by = inverse_of(held.ranges, problem.shape.queries, problem.shape.keys);
  problem.visibility.seen_by = reinterpret_cast<const QueryRange*>(held.seen_by.const_data_ptr<std::int64_t>());
}

template <class T>
RowStatistics<T> statistics_in(const at::Tensor& tensor, bool argmax) {
  return {tensor.mutable_data_ptr<T>(), tensor.numel() / RowStatistics<T>::count, argmax};
}

void forward(const PairwiseCall& call, const WantedOutputs& wanted, const PairwiseResults& results) {
  AT_DISPATCH_FLOATING_TYPES(computed_type(call.query), "cogwheel::pairwise", [&] {
    PairwiseForward<scalar_t> problem;
    HeldOptions held;
    describe_whole(problem, call, held);
    problem.output = heads_view<scalar_t>(results.output);
    problem.shift = results.shift.mutable_data_ptr<scalar_t>();
    problem.mass = results.mass.mutable_data_ptr<scalar_t>();
    if (wanted.statistics) problem.statistics = statistics_in<scalar_t>(results.statistics, wanted.argmax);
    pairwise_kernel<scalar_t>(call.mechanism).forward(problem, TorchExecutor());
  });
}

void mixture_statistics(const PairwiseCall& call, const MixtureMembers& members, bool argmax,
                        const at::Tensor& statistics) {
  AT_DISPATCH_FLOATING_TYPES(computed_type(call.query), "cogwheel::mixture_statistics", [&] {
    MixtureStatistics<scalar_t> problem;
    HeldOptions held;
    describe_whole(problem, call, held);
    problem.shift = members.shift.const_data_ptr<scalar_t>();
    problem.mass = members.mass.const_data_ptr<scalar_t>();
    if (members.coefficient) problem.coefficient = members.coefficient->const_data_ptr<scalar_t>();
    problem.statistics = statistics_in<scalar_t>(statistics, argmax);
    pairwise_kernel<scalar_t>(call.mechanism).mixture_statistics(problem, TorchExecutor());
  });
}

// What kernels write of the gradient of an option (pairwise_options.def).
enum class Extent { pairs, queries, widths };

// The memory for it; undefined where they write none.
at::Tensor memory_of(Extent extent, bool wanted, const std::optional<at::Tensor>& option, const PairwiseCall& call) {
  const at::Tensor& query = call.query;
  const auto sums = query.options().dtype(at::kDouble);
  // A by-product of the key's gradient, wanted or not.
  if (extent == Extent::widths) return option ? at::zeros(option->sizes(), sums) : at::Tensor();
  if (!wanted) return {};
  if (extent == Extent::queries) return at::empty({query.size(0), query.size(1), query.size(2), 1}, sums);
  return at::zeros({query.size(0), query.size(1), query.size(2), call.key.size(2)}, computed_options(query));
}

// Of what kernels wrote, the gradient of the option.
at::Tensor summed(Extent extent, const at::Tensor& written, const at::Tensor& option, const PairwiseCall& call) {
  const std::int64_t sub_heads = call.options.sub_heads;
  if (extent == Extent::pairs) return sum_in_order(written, sub_heads, option.sizes());
  if (extent == Extent::widths) return written.to(computed_type(call.query));
  return sum_in_order(written, sub_heads, {written.size(0), written.size(1) / sub_heads, written.size(2), 1})
      .squeeze(-1)
      .to(computed_type(call.query));
}

template <class T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

// What kernels write of the gradients of all options.
struct Written {
#define PAIRWISE_DIFFERENTIABLE(name, extent) at::Tensor name;
#include "cogwheel/ops/pairwise/pairwise_options.def"

  template <class T>
  void be_written_by(PairwiseBackward<T>& problem) const {
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  problem.name##_gradient = data_or_null<std::remove_pointer_t<decltype(problem.name##_gradient)>>(name);
#include "cogwheel/ops/pairwise/pairwise_options.def"
  }
};

void backward(const PairwiseCall& call, const at::Tensor& gradient, const PairwiseSaved& saved,
              const WantedGradients& wanted, GradientsOfCall& gradients) {
  const Written written{
#define PAIRWISE_DIFFERENTIABLE(name, extent) memory_of(Extent::extent, wanted.name, call.options.name, call),
#include "cogwheel/ops/pairwise/pairwise_options.def"
  };
  AT_DISPATCH_FLOATING_TYPES(computed_type(call.query), "cogwheel::pairwise_backward", [&] {
    PairwiseBackward<scalar_t> problem;
    HeldOptions held;
    describe_whole(problem, call, held);
    problem.output = heads_view<const scalar_t>(saved.output);
    problem.output_gradient = heads_view<const scalar_t>(gradient);
    problem.shift = saved.shift.const_data_ptr<scalar_t>();
    problem.mass = saved.mass.const_data_ptr<scalar_t>();
    problem.query_gradient = heads_view<scalar_t>(gradients.query);
    problem.key_gradient = heads_view<scalar_t>(gradients.key);
    problem.value_gradient = heads_view<scalar_t>(gradients.value);
    problem.parameter_gradient =
        call.parameters.numel() == 0 ? nullptr : gradients.parameters.mutable_data_ptr<double>();
    written.be_written_by(problem);
    pairwise_kernel<scalar_t>(call.mechanism).backward(problem, TorchExecutor());
  });
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  if (wanted.name) gradients.name = summed(Extent::extent, written.name, *call.options.name, call);
#include "cogwheel/ops/pairwise/pairwise_options.def"
}

}  // namespace

const PairwiseEngine& cpu_pairwise_engine() {
  static const PairwiseEngine engine{.device = at::kCPU,
                                     .dtypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf},
                                     .options = every_pairwise_option(),
                                     .weights = true,
                                     .statistics = true,
                                     .key_panels = true,
                                     .forward = forward,
                                     .backward = backward,
                                     .mixture_statistics = mixture_statistics,
                                     .kernels = [] { return available_kernels(); }};
  return engine;
}

}  // namespace cogwheel::ops
