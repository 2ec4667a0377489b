#include "cogwheel/ops/recurrent/exponential_gates.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "cogwheel/attention/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/walk_launches.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

// Those of ExponentialGates, and σ(−forget_t), the derivative of log σ: made here, because ATen's sigmoid rounds by the
// place of a number in memory, and packed sequences would not have the gradients that each has alone.
using GateTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

constexpr std::int64_t gates_per_task = 2048;

c10::SymInt sequences_of_gates(const at::Tensor& input, const OptionalTensor& cu_seqlens) {
  return cu_seqlens ? cu_seqlens->sym_size(0) - 1 : input.sym_size(0);
}

GateTensors gates_on_meta(const at::Tensor& input, const at::Tensor&, const OptionalTensor&,
                          const OptionalTensor& cu_seqlens) {
  const auto like_input = [&] { return at::empty_symint(input.sym_sizes(), input.options()); };
  return {like_input(), like_input(), like_input(),
          at::empty_symint({sequences_of_gates(input, cu_seqlens), input.sym_size(1)}, input.options()), like_input()};
}

GateTensors gates_on_cpu(const at::Tensor& input_, const at::Tensor& forget_, const OptionalTensor& initial_,
                         const OptionalTensor& cu_seqlens_) {
  const at::Tensor input = input_.contiguous(), forget = forget_.contiguous();
  const at::Tensor initial = initial_ ? initial_->contiguous() : at::Tensor();
  const at::Tensor cu_seqlens = cu_seqlens_ ? cu_seqlens_->contiguous() : at::Tensor();
  const std::int64_t heads = input.size(1), tokens = input.size(2);
  if (cu_seqlens_) check_sequence_bounds(cu_seqlens, tokens);
  const GateTensors made = gates_on_meta(input, forget, initial_, cu_seqlens_);
  const RecurrentShape shape{.sequences = sequences_of_gates(input, cu_seqlens_).expect_int(),
                             .heads = heads,
                             .tokens = tokens,
                             .key_width = 1,
                             .value_width = 1,
                             .first_tokens = cu_seqlens_ ? cu_seqlens.const_data_ptr<std::int64_t>() : nullptr};
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "cogwheel::exponential_gates", [&] {
    const scalar_t *inputs = input.const_data_ptr<scalar_t>(), *forgets = forget.const_data_ptr<scalar_t>();
    const scalar_t* first = initial_ ? initial.const_data_ptr<scalar_t>() : nullptr;
    const auto& [log_decay, weight, least, last, forgotten] = made;
    scalar_t *decays = log_decay.template mutable_data_ptr<scalar_t>(),
             *weights = weight.template mutable_data_ptr<scalar_t>(),
             *leasts = least.template mutable_data_ptr<scalar_t>(), *lasts = last.template mutable_data_ptr<scalar_t>(),
             *shares = forgotten.template mutable_data_ptr<scalar_t>();
    const std::int64_t grain = std::max<std::int64_t>(1, gates_per_task / std::max<std::int64_t>(1, tokens));
    at::parallel_for(0, shape.sequences * heads, grain, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t each = from; each < to; ++each) {
        const TokenSpan span = shape.span(each / heads);
        const std::int64_t begin = (span.batch * heads + each % heads) * tokens + span.begin;
        scalar_t m = first ? first[each] : scalar_t(0);
        for (std::int64_t i = begin; i < begin + span.count; ++i) {
          const scalar_t f = forgets[i];
          const scalar_t small = std::exp(-std::abs(f));
          const scalar_t kept = std::min(f, scalar_t(0)) - std::log1p(small) + m;
          m = std::max({kept, inputs[i], scalar_t(0)});
          decays[i] = std::min(kept - m, scalar_t(0));
          weights[i] = std::exp(inputs[i] - m);
          leasts[i] = std::exp(-m);
          shares[i] = (f < 0 ? scalar_t(1) : small) / (1 + small);
        }
        lasts[each] = m;
      }
    });
  });
  return made;
}

// By a kernel for GPUs (python/cogwheel/device_kernels/walks).
GateTensors gates_launched(const at::Tensor& input, const at::Tensor& forget, const OptionalTensor& initial,
                           const OptionalTensor& cu_seqlens) {
  constexpr std::int64_t block = 128;
  const GateTensors made = gates_on_meta(input, forget, initial, cu_seqlens);
  const auto& [log_decay, weight, least, last, forgotten] = made;
  WalkLaunches launches(input.unsqueeze(-1), cu_seqlens, 1, 1, block);
  Launch launch = launches.launch("exponential_gates", launches.sequences() * launches.heads());
  launch.add("given", input.contiguous());
  launch.add("kept", forget.contiguous());
  if (initial) launch.add("initial", initial->contiguous());
  launch.add("log_decay", log_decay);
  launch.add("weight", weight);
  launch.add("least", least);
  launch.add("last", last);
  launch.add("forgotten", forgotten);
  launch.add_constant("TOKENS", block);
  launches.then(std::move(launch));
  launches.run();
  return made;
}

GateTensors gates_with_data(const at::Tensor& input, const at::Tensor& forget, const OptionalTensor& initial,
                            const OptionalTensor& cu_seqlens) {
  if (walks_are_launched(input)) return gates_launched(input, forget, initial, cu_seqlens);
  const at::Device device = input.device();
  if (device.is_cpu()) return gates_on_cpu(input, forget, initial, cu_seqlens);
  const auto on_host = [](const OptionalTensor& tensor) {
    return tensor ? OptionalTensor(tensor->cpu()) : std::nullopt;
  };
  return on_device(gates_on_cpu(input.cpu(), forget.cpu(), on_host(initial), on_host(cu_seqlens)), device);
}

GateTensors call_gates(const at::Tensor& input, const at::Tensor& forget, const OptionalTensor& initial,
                       const OptionalTensor& cu_seqlens) {
  static const auto handle = find_operator<decltype(gates_on_cpu)>("cogwheel::exponential_gates");
  return handle.call(input, forget, initial, cu_seqlens);
}

// m_0 stands in the decay of a sequence's first token alone.
at::Tensor gradient_of_initial(const at::Tensor& of_log_decay, const at::Tensor& cu_seqlens) {
  const c10::SymInt tokens = of_log_decay.sym_size(2);
  if (!cu_seqlens.defined())
    return tokens == 0 ? at::zeros_symint({of_log_decay.sym_size(0), of_log_decay.sym_size(1)}, of_log_decay.options())
                       : of_log_decay.select(2, 0);
  const c10::SymInt sequences = cu_seqlens.sym_size(0) - 1;
  if (tokens == 0) return at::zeros_symint({sequences, of_log_decay.sym_size(1)}, of_log_decay.options());
  const at::Tensor begins = cu_seqlens.slice_symint(0, 0, sequences), ends = cu_seqlens.slice_symint(0, 1);
  const at::Tensor places = at::minimum(begins, ends - 1).clamp_min(0);  // an empty one's is not used
  return of_log_decay.select(0, 0).index_select(1, places).t().masked_fill(begins.eq(ends).unsqueeze(-1), 0);
}

GateTensors recorded_gates(const at::Tensor& input, const at::Tensor& forget, const OptionalTensor& initial,
                           const OptionalTensor& cu_seqlens) {
  const variable_list inputs{input, forget, or_undefined(initial)};
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  GateTensors made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = call_gates(input, forget, initial, cu_seqlens);
  }
  if (needs_record(inputs))
    record_saving(
        "ExponentialGatesBackward", inputs, {std::get<0>(made), std::get<1>(made)},
        {.inputs = {}, .outputs = {std::get<1>(made), std::get<4>(made)}, .constants = {or_undefined(cu_seqlens)}},
        [](const variable_list&, const variable_list& outputs, const variable_list& gradients) {
          variable_list all(3);
          if (gradients[1].defined()) all[0] = gradients[1] * outputs[0];
          if (gradients[0].defined()) {
            all[1] = gradients[0] * outputs[1];
            all[2] = gradient_of_initial(gradients[0], outputs[2]);
          }
          return all;
        });
  return made;
}

}  // namespace

ExponentialGates exponential_gates(const at::Tensor& input, const at::Tensor& forget, const OptionalTensor& initial,
                                   const OptionalTensor& cu_seqlens) {
  const auto [log_decay, weight, least, last, forgotten] = call_gates(input, forget, initial, cu_seqlens);
  return {log_decay, weight, least, last};
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "exponential_gates(Tensor input, Tensor forget, Tensor? initial, Tensor? cu_seqlens) -> "
      "(Tensor log_decay, Tensor weight, Tensor least, Tensor last, Tensor forgotten)");
}
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { library.impl("exponential_gates", gates_with_data); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("exponential_gates", gates_on_meta); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("exponential_gates", gates_with_data); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("exponential_gates", recorded_gates); }

}  // namespace cogwheel::ops
