// cogwheel::delta_walk: the walk by a delta rule on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/delta_walk.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "cogwheel/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/contiguous_width.h"
#include "cogwheel/ops/engine_registration.h"
#include "cogwheel/ops/executor.h"
#include "cogwheel/ops/find_operator.h"
#include "cogwheel/ops/recorded_node.h"
#include "cogwheel/ops/recurrent_checks.h"
#include "cogwheel/ops/walk_operator.h"

namespace cogwheel {
namespace {

using DeltaWalked = std::tuple<at::Tensor, at::Tensor>;
// Of query, key, value, beta, log decay and initial state; empty where there is none of the last two.
using DeltaGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_delta(const DeltaWalk& walk) {
  const at::Tensor& query = walk.query;
  check_recurrent(query, walk.key, walk.value);
  check_computed("query", query);
  check_recurrent_axes("beta", walk.beta, query, walk.value, "BHN");
  if (walk.log_decay) check_recurrent_axes("log_decay", *walk.log_decay, query, walk.value, "BHN|BHND");
  if (walk.cu_seqlens) check_sequences(*walk.cu_seqlens, query);
  if (walk.initial_state) check_recurrent_state("initial_state", *walk.initial_state, query, sizes_of_states(walk));
}

DeltaGradients empty_delta_gradients(const DeltaWalk& walk) {
  const auto beside = [&](const OptionalTensor& tensor) { return empty_gradient(walk, tensor); };
  return {beside(walk.query), beside(walk.key),       beside(walk.value),
          beside(walk.beta),  beside(walk.log_decay), beside(walk.initial_state)};
}

// A number for each token, or a row of them, as rows.
at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(-1) : with_contiguous_width(tensor);
}

// The tensors that a problem's pointers point into.
struct HeldDeltaWalk {
  at::Tensor query, key, value, beta, log_decay, initial_state, cu_seqlens;

  // DeltaForward or DeltaBackward.
  template <class T, class Problem>
  Problem problem_of(const DeltaWalk& walk) {
    Problem problem;
    query = with_contiguous_width(walk.query);
    key = with_contiguous_width(walk.key);
    value = with_contiguous_width(walk.value);
    beta = as_rows(walk.beta);
    problem.shape = {sequences_of(walk).expect_int(), query.size(1), query.size(2), query.size(3), value.size(3)};
    problem.scale = static_cast<T>(walk.scale);
    problem.query = view_to_read<T>(query);
    problem.key = view_to_read<T>(key);
    problem.value = view_to_read<T>(value);
    problem.beta = view_to_read<T>(beta);
    if (walk.log_decay) {
      log_decay = as_rows(*walk.log_decay);
      problem.transition = walk.log_decay->dim() == 3 ? Transition::per_token : Transition::per_channel;
      problem.gate = view_to_read<T>(log_decay);
    }
    if (walk.initial_state) {
      initial_state = walk.initial_state->contiguous();
      problem.initial_state = initial_state.const_data_ptr<T>();
    }
    if (walk.cu_seqlens) {
      cu_seqlens = walk.cu_seqlens->contiguous();
      problem.shape.first_tokens = cu_seqlens.const_data_ptr<std::int64_t>();
    }
    return problem;
  }
};

DeltaWalked delta_walk_cpu(const DeltaWalk& walk) {
  check_delta(walk);
  check_recurrent_values("beta", walk.beta, Values::from_0_to_2);
  if (walk.log_decay) check_recurrent_values("log_decay", *walk.log_decay, Values::at_most_0);
  const DeltaWalked walked = empty_walked(walk);
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::delta_walk", [&] {
    HeldDeltaWalk held;
    auto problem = held.problem_of<scalar_t, DeltaForward<scalar_t>>(walk);
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().delta_forward(problem, TorchExecutor());
  });
  return walked;
}

DeltaWalked delta_walk_meta(const DeltaWalk& walk) {
  check_delta(walk);
  return empty_walked(walk);
}

DeltaGradients delta_walk_back_cpu(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                   const DeltaWalk& walk) {
  check_delta(walk);
  DeltaGradients gradients = empty_delta_gradients(walk);
  const auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  const at::Tensor of_output = with_contiguous_width(output_gradient),
                   of_last = state_gradient ? state_gradient->contiguous() : at::Tensor();
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::delta_walk_backward", [&] {
    HeldDeltaWalk held;
    auto problem = held.problem_of<scalar_t, DeltaBackward<scalar_t>>(walk);
    problem.output_gradient = view_to_read<scalar_t>(of_output);
    if (state_gradient) problem.state_gradient = of_last.const_data_ptr<scalar_t>();
    problem.query_gradient = view_to_write<scalar_t>(of_query);
    problem.key_gradient = view_to_write<scalar_t>(of_key);
    problem.value_gradient = view_to_write<scalar_t>(of_value);
    problem.beta_gradient = view_to_write<scalar_t>(as_rows(of_beta));
    if (walk.log_decay) problem.gate_gradient = view_to_write<scalar_t>(as_rows(of_log_decay));
    if (walk.initial_state) problem.initial_state_gradient = of_state.mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().delta_backward(problem, TorchExecutor());
  });
  return gradients;
}

DeltaGradients delta_walk_back_meta(const at::Tensor&, const OptionalTensor&, const DeltaWalk& walk) {
  check_delta(walk);
  return empty_delta_gradients(walk);
}

DeltaGradients delta_walk_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                               const DeltaWalk& walk) {
  using Operator = Unbundled<delta_walk_back>;
  static const auto handle = find_operator<Operator::Signature>("cogwheel::delta_walk_backward");
  return Operator::dispatch(handle, output_gradient, state_gradient, walk);
}

// The tensors that have gradients, undefined where there is none.
variable_list delta_inputs(const DeltaWalk& walk) {
  return {walk.query, walk.key, walk.value, walk.beta, or_undefined(walk.log_decay), or_undefined(walk.initial_state)};
}

DeltaWalked delta_walk_autograd(const DeltaWalk& walk) {
  const variable_list inputs = delta_inputs(walk);
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  DeltaWalked walked;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    walked = delta_walk(walk);
  }
  if (!needs_record(inputs)) return walked;
  record_saving("DeltaWalkBackward", inputs, {std::get<0>(walked), std::get<1>(walked)},
                {.inputs = inputs, .outputs = {}, .constants = {or_undefined(walk.cu_seqlens)}},
                [scale = walk.scale](const variable_list& given, const variable_list& constants,
                                     const variable_list& gradients) -> variable_list {
                  const DeltaWalk of{.query = given[0],
                                     .key = given[1],
                                     .value = given[2],
                                     .beta = given[3],
                                     .log_decay = or_none(given[4]),
                                     .initial_state = or_none(given[5]),
                                     .cu_seqlens = or_none(constants[0]),
                                     .scale = scale};
                  const at::Tensor of_output = gradients[0].defined()
                                                   ? gradients[0]
                                                   : at::zeros_symint(of.value.sym_sizes(), of.value.options());
                  const auto [of_query, of_key, of_value, of_beta, of_log_decay, of_state] =
                      delta_walk_back(of_output, or_none(gradients[1]), of);
                  return {of_query,
                          of_key,
                          of_value,
                          of_beta,
                          of.log_decay ? of_log_decay : at::Tensor(),
                          of.initial_state ? of_state : at::Tensor()};
                });
  return walked;
}

DeltaGradients delta_walk_back_autograd(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                        const DeltaWalk& walk) {
  variable_list inputs = delta_inputs(walk);
  inputs.insert(inputs.begin(), {output_gradient, or_undefined(state_gradient)});
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  DeltaGradients gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients = delta_walk_back(output_gradient, state_gradient, walk);
  }
  if (!needs_record(inputs)) return gradients;
  const auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  record_saving("DeltaWalkBackwardBackward", inputs, {of_query, of_key, of_value, of_beta, of_log_decay, of_state},
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_recurrent_derivative("second ones");
                });
  return gradients;
}

}  // namespace

DeltaWalked delta_walk(const DeltaWalk& walk) {
  using Operator = Unbundled<delta_walk>;
  static const auto handle = find_operator<Operator::Signature>("cogwheel::delta_walk");
  return Operator::dispatch(handle, walk);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(("delta_walk(" + schema_of<DeltaWalk>() + ") -> (Tensor output, Tensor state)").c_str());
  library.def(("delta_walk_backward(Tensor output_gradient, Tensor? state_gradient, " + schema_of<DeltaWalk>() +
               ") -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
                  .c_str());
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("delta_walk", Unbundled<delta_walk_cpu>::call);
  library.impl("delta_walk_backward", Unbundled<delta_walk_back_cpu>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("delta_walk", Unbundled<delta_walk_meta>::call);
  library.impl("delta_walk_backward", Unbundled<delta_walk_back_meta>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "delta_walk");
  implement_on_host(library, "delta_walk_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("delta_walk", Unbundled<delta_walk_autograd>::call);
  library.impl("delta_walk_backward", Unbundled<delta_walk_back_autograd>::call);
}

}  // namespace cogwheel
