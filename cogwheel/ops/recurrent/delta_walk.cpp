// cogwheel::delta_walk: the walk by a delta rule on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/recurrent/delta_walk.h"

#include <ATen/Dispatch.h>

#include "cogwheel/attention/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/recurrent/delta_walk_launches.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/walk_operator.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/executor.h"

namespace cogwheel::ops {
namespace {

struct DeltaWalkOperator {
  using Walk = DeltaWalk;
  static constexpr const char *name = "delta_walk", *node = "DeltaWalkBackward",
                              *second_node = "DeltaWalkBackwardBackward";
  static void check(const DeltaWalk& walk);
  static void check_values(const DeltaWalk& walk);
  static std::array<c10::SymInt, 4> sizes_of_states(const DeltaWalk& walk) {
    return {sequences_of(walk), walk.query.sym_size(1), walk.query.sym_size(3), walk.value.sym_size(3)};
  }
  static Walked forward(const DeltaWalk& walk);
  static WalkGradients<DeltaWalk> backward(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                           const DeltaWalk& walk);
};

void DeltaWalkOperator::check(const DeltaWalk& walk) {
  const at::Tensor& query = walk.query;
  check_recurrent(query, walk.key, walk.value);
  check_computed("query", query);
  check_recurrent_axes("beta", walk.beta, query, walk.value, "BHN");
  if (walk.log_decay) check_recurrent_axes("log_decay", *walk.log_decay, query, walk.value, "BHN|BHND");
  if (walk.cu_seqlens) check_sequences(*walk.cu_seqlens, query);
  if (walk.initial_state) check_recurrent_state("initial_state", *walk.initial_state, query, sizes_of_states(walk));
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

void DeltaWalkOperator::check_values(const DeltaWalk& walk) {
  check_recurrent_values("beta", walk.beta, Values::from_0_to_2);
  if (walk.log_decay) check_recurrent_values("log_decay", *walk.log_decay, Values::at_most_0);
}

Walked DeltaWalkOperator::forward(const DeltaWalk& walk) {
  const Walked walked = empty_walked<DeltaWalkOperator>(walk);
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::delta_walk", [&] {
    HeldDeltaWalk held;
    auto problem = held.problem_of<scalar_t, DeltaForward<scalar_t>>(walk);
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().delta_forward(problem, TorchExecutor());
  });
  return walked;
}

WalkGradients<DeltaWalk> DeltaWalkOperator::backward(const at::Tensor& output_gradient,
                                                     const OptionalTensor& state_gradient, const DeltaWalk& walk) {
  WalkGradients<DeltaWalk> gradients = empty_walk_gradients(walk);
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

}  // namespace

Walked delta_walk(const DeltaWalk& walk) { return call_walk<DeltaWalkOperator>(walk); }

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { define_walk<DeltaWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { implement_walk_with_data<DeltaWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { implement_walk_on_meta<DeltaWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_walk_with_data<DeltaWalkOperator>(library);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { implement_walk_in_autograd<DeltaWalkOperator>(library); }

}  // namespace cogwheel::ops
