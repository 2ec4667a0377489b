// cogwheel::token_walk: the engine's walk on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/recurrent/token_walk.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "cogwheel/attention/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/token_walk_launches.h"
#include "cogwheel/ops/recurrent/walk_operator.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/executor.h"

namespace cogwheel::ops {
namespace {

struct TokenWalkOperator {
  using Walk = TokenWalk;
  static constexpr const char *name = "token_walk", *node = "TokenWalkBackward",
                              *second_node = "TokenWalkBackwardBackward";
  static void check(const TokenWalk& walk);
  static void check_values(const TokenWalk& walk);
  static std::array<c10::SymInt, 4> sizes_of_states(const TokenWalk& walk) {
    return {sequences_of(walk), walk.query.sym_size(1), walk.query.sym_size(3),
            walk.value.sym_size(3) + (walk.counts ? 1 : 0)};
  }
  static Walked forward(const TokenWalk& walk);
  static WalkGradients<TokenWalk> backward(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                           const TokenWalk& walk);
};

Transition transition_of(const TokenWalk& walk) {
  const auto* const found = std::find(std::begin(transition_names), std::end(transition_names), walk.transition);
  if (found == std::end(transition_names))
    refuse_recurrent("transition", "none, constant, per_token or per_channel", walk.transition);
  return static_cast<Transition>(found - std::begin(transition_names));
}

void TokenWalkOperator::check(const TokenWalk& walk) {
  const Transition transition = transition_of(walk);
  const at::Tensor& query = walk.query;
  check_recurrent(query, walk.key, walk.value);
  const auto check_gate = [&](const char* name, const OptionalTensor& tensor, bool wanted, std::string_view axes) {
    if (tensor.has_value() != wanted)
      refuse_recurrent(name, wanted ? "a tensor" : "nothing", tensor ? "a tensor" : "nothing");
    if (tensor) check_recurrent_axes(name, *tensor, query, walk.value, axes);
  };
  constexpr std::string_view axes_of_gate[]{"", "H", "BHN", "BHND"};
  check_gate("gate", walk.gate, transition != Transition::none, axes_of_gate[static_cast<int>(transition)]);
  check_gate("value_gate", walk.value_gate, walk.value_gate.has_value(), "BHNV");
  if (walk.value_gate && transition != Transition::none && transition != Transition::per_channel)
    refuse_recurrent("value_gate", "nothing, or the transition none or per_channel", walk.transition);
  if (walk.reads_before && (transition != Transition::per_channel || walk.value_gate))
    refuse_recurrent("reads_before", "the transition per_channel, without a value gate", walk.transition);
  if (walk.counts && (transition == Transition::per_channel || walk.value_gate))
    refuse_recurrent("counts", "the transition none, constant or per_token, without a value gate", walk.transition);
  check_computed("query", query);
  if (walk.cu_seqlens) check_sequences(*walk.cu_seqlens, query);
  if (walk.initial_state) check_recurrent_state("initial_state", *walk.initial_state, query, sizes_of_states(walk));
}

// A gate as rows of width 1, or of its own.
at::Tensor gate_rows(Transition transition, const at::Tensor& gate) {
  switch (transition) {
    case Transition::constant:
      return gate.view({1, -1, 1, 1}).expand({1, gate.size(0), 1, 1});
    case Transition::per_token:
      return gate.unsqueeze(-1);
    default:
      return with_contiguous_width(gate);
  }
}

// The engine's problem, and the tensors that its pointers point into.
template <class T>
struct HeldProblem {
  at::Tensor query, key, value, gate, value_gate, initial_state, cu_seqlens;
  RecurrentProblem<T> problem;

  explicit HeldProblem(const TokenWalk& walk)
      : query(with_contiguous_width(walk.query)),
        key(with_contiguous_width(walk.key)),
        value(with_contiguous_width(walk.value)) {
    problem.shape = {sequences_of(walk).expect_int(), query.size(1), query.size(2), query.size(3),
                     value.size(3) + (walk.counts ? 1 : 0)};
    problem.counts = walk.counts;
    problem.transition = transition_of(walk);
    problem.scale = static_cast<T>(walk.scale);
    problem.decays_columns = walk.value_gate.has_value();
    problem.reads_before = walk.reads_before;
    problem.query = view_to_read<T>(query);
    problem.key = view_to_read<T>(key);
    problem.value = view_to_read<T>(value);
    if (walk.gate) {
      gate = gate_rows(problem.transition, *walk.gate);
      const bool constant = problem.transition == Transition::constant;  // one row for the head, whichever the token
      problem.gate = {gate.const_data_ptr<T>(), constant ? 0 : gate.stride(0), gate.stride(1),
                      constant ? 0 : gate.stride(2)};
    }
    if (walk.value_gate) {
      value_gate = with_contiguous_width(*walk.value_gate);
      problem.value_gate = view_to_read<T>(value_gate);
    }
    if (walk.initial_state) {
      initial_state = walk.initial_state->contiguous();
      problem.initial_state = initial_state.const_data_ptr<T>();
    }
    if (walk.cu_seqlens) {
      cu_seqlens = walk.cu_seqlens->contiguous();
      problem.shape.first_tokens = cu_seqlens.const_data_ptr<std::int64_t>();
    }
  }
};

void TokenWalkOperator::check_values(const TokenWalk& walk) {
  if (walk.gate) {
    if (transition_of(walk) == Transition::constant)
      check_recurrent_values("decay", *walk.gate, Values::above_0_to_1);
    else
      check_recurrent_values("log_decay", *walk.gate, Values::at_most_0);
  }
  if (walk.value_gate) check_recurrent_values("log_value_decay", *walk.value_gate, Values::at_most_0);
}

Walked TokenWalkOperator::forward(const TokenWalk& walk) {
  const Walked walked = empty_walked<TokenWalkOperator>(walk);
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::token_walk", [&] {
    const HeldProblem<scalar_t> held(walk);
    RecurrentForward<scalar_t> problem{held.problem};
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).template mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return walked;
}

WalkGradients<TokenWalk> TokenWalkOperator::backward(const at::Tensor& output_gradient,
                                                     const OptionalTensor& state_gradient, const TokenWalk& walk) {
  WalkGradients<TokenWalk> gradients = empty_walk_gradients(walk);
  auto& [of_query, of_key, of_value, of_gate, of_value_gate, of_state] = gradients;
  const Transition transition = transition_of(walk);
  const bool constant = transition == Transition::constant;
  const std::int64_t sequences = sequences_of(walk).expect_int(), heads = walk.query.size(1);
  const at::Tensor of_gate_rows = constant ? at::empty({sequences, heads, 1, 1}, walk.query.options())
                                           : (transition == Transition::per_token ? of_gate.unsqueeze(-1) : of_gate);
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::token_walk_backward", [&] {
    const HeldProblem<scalar_t> held(walk);
    RecurrentBackward<scalar_t> problem{held.problem};
    const at::Tensor of_output = with_contiguous_width(output_gradient),
                     of_last = state_gradient ? state_gradient->contiguous() : at::Tensor();
    problem.output_gradient = view_to_read<scalar_t>(of_output);
    if (state_gradient) problem.state_gradient = of_last.const_data_ptr<scalar_t>();
    problem.query_gradient = view_to_write<scalar_t>(of_query);
    problem.key_gradient = view_to_write<scalar_t>(of_key);
    problem.value_gradient = view_to_write<scalar_t>(of_value);
    if (walk.gate) problem.gate_gradient = view_to_write<scalar_t>(of_gate_rows);
    if (walk.value_gate) problem.value_gate_gradient = view_to_write<scalar_t>(of_value_gate);
    if (walk.initial_state) problem.initial_state_gradient = of_state.mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().backward(problem, TorchExecutor());
    if (constant) {  // summed in the order of the sequences, whatever the number of threads
      const scalar_t* each = of_gate_rows.const_data_ptr<scalar_t>();
      scalar_t* sums = of_gate.mutable_data_ptr<scalar_t>();
      std::fill_n(sums, heads, scalar_t(0));
      for (std::int64_t i = 0; i < sequences * heads; ++i) sums[i % heads] += each[i];
    }
  });
  return gradients;
}

}  // namespace

Walked token_walk(const TokenWalk& walk) { return call_walk<TokenWalkOperator>(walk); }

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { define_walk<TokenWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { implement_walk_with_data<TokenWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { implement_walk_on_meta<TokenWalkOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_walk_with_data<TokenWalkOperator>(library);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { implement_walk_in_autograd<TokenWalkOperator>(library); }

}  // namespace cogwheel::ops
