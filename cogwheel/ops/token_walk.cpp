// cogwheel::token_walk: the engine's walk on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/token_walk.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

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

using Walked = std::tuple<at::Tensor, at::Tensor>;
// Of query, key, value, gate, value gate and initial state; empty where there is none of the last three.
using WalkGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Transition transition_of(const TokenWalk& walk) {
  const auto* const found = std::find(std::begin(transition_names), std::end(transition_names), walk.transition);
  if (found == std::end(transition_names))
    refuse_recurrent("transition", "none, constant, per_token or per_channel", walk.transition);
  return static_cast<Transition>(found - std::begin(transition_names));
}

void check_walk(const TokenWalk& walk) {
  const Transition transition = transition_of(walk);
  const at::Tensor& query = walk.query;
  check_recurrent(query, walk.key, walk.value);
  const auto check = [&](const char* name, const OptionalTensor& tensor, bool wanted, std::string_view axes) {
    if (tensor.has_value() != wanted)
      refuse_recurrent(name, wanted ? "a tensor" : "nothing", tensor ? "a tensor" : "nothing");
    if (tensor) check_recurrent_axes(name, *tensor, query, walk.value, axes);
  };
  constexpr std::string_view axes_of_gate[]{"", "H", "BHN", "BHND"};
  check("gate", walk.gate, transition != Transition::none, axes_of_gate[static_cast<int>(transition)]);
  check("value_gate", walk.value_gate, walk.value_gate.has_value(), "BHNV");
  if (walk.value_gate && transition != Transition::none && transition != Transition::per_channel)
    refuse_recurrent("value_gate", "nothing, or the transition none or per_channel", walk.transition);
  if (walk.reads_before && (transition != Transition::per_channel || walk.value_gate))
    refuse_recurrent("reads_before", "the transition per_channel, without a value gate", walk.transition);
  check_computed("query", query);
  if (walk.cu_seqlens) check_sequences(*walk.cu_seqlens, query);
  if (walk.initial_state) check_recurrent_state("initial_state", *walk.initial_state, query, sizes_of_states(walk));
}

WalkGradients empty_walk_gradients(const TokenWalk& walk) {
  const auto beside = [&](const OptionalTensor& tensor) { return empty_gradient(walk, tensor); };
  return {beside(walk.query), beside(walk.key),        beside(walk.value),
          beside(walk.gate),  beside(walk.value_gate), beside(walk.initial_state)};
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
    problem.shape = {sequences_of(walk).expect_int(), query.size(1), query.size(2), query.size(3), value.size(3)};
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

// The values that a walk on the host can see.
void check_walk_values(const TokenWalk& walk) {
  check_walk(walk);
  if (walk.gate) {
    if (transition_of(walk) == Transition::constant)
      check_recurrent_values("decay", *walk.gate, Values::above_0_to_1);
    else
      check_recurrent_values("log_decay", *walk.gate, Values::at_most_0);
  }
  if (walk.value_gate) check_recurrent_values("log_value_decay", *walk.value_gate, Values::at_most_0);
}

Walked walk_cpu(const TokenWalk& walk) {
  check_walk_values(walk);
  const Walked walked = empty_walked(walk);
  AT_DISPATCH_FLOATING_TYPES(walk.query.scalar_type(), "cogwheel::token_walk", [&] {
    const HeldProblem<scalar_t> held(walk);
    RecurrentForward<scalar_t> problem{held.problem};
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).template mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return walked;
}

Walked walk_meta(const TokenWalk& walk) {
  check_walk(walk);
  return empty_walked(walk);
}

WalkGradients walk_back_cpu(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                            const TokenWalk& walk) {
  check_walk(walk);
  WalkGradients gradients = empty_walk_gradients(walk);
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

WalkGradients walk_back_meta(const at::Tensor&, const OptionalTensor&, const TokenWalk& walk) {
  check_walk(walk);
  return empty_walk_gradients(walk);
}

WalkGradients walk_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                        const TokenWalk& walk) {
  using Operator = Unbundled<walk_back>;
  static const auto handle = find_operator<Operator::Signature>("cogwheel::token_walk_backward");
  return Operator::dispatch(handle, output_gradient, state_gradient, walk);
}

// The tensors that have gradients, undefined where there is none.
variable_list inputs_of(const TokenWalk& walk) {
  return {walk.query,
          walk.key,
          walk.value,
          or_undefined(walk.gate),
          or_undefined(walk.value_gate),
          or_undefined(walk.initial_state)};
}

Walked walk_autograd(const TokenWalk& walk) {
  const variable_list inputs = inputs_of(walk);
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  Walked walked;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    walked = token_walk(walk);
  }
  if (!needs_record(inputs)) return walked;
  TokenWalk settings;
  settings.transition = walk.transition, settings.reads_before = walk.reads_before, settings.scale = walk.scale;
  record_saving(
      "TokenWalkBackward", inputs, {std::get<0>(walked), std::get<1>(walked)},
      {.inputs = inputs, .outputs = {}, .constants = {or_undefined(walk.cu_seqlens)}},
      [settings](const variable_list& given, const variable_list& constants,
                 const variable_list& gradients) -> variable_list {
        TokenWalk of = settings;
        of.query = given[0], of.key = given[1], of.value = given[2], of.gate = or_none(given[3]);
        of.value_gate = or_none(given[4]), of.initial_state = or_none(given[5]), of.cu_seqlens = or_none(constants[0]);
        const at::Tensor of_output =
            gradients[0].defined() ? gradients[0] : at::zeros_symint(of.value.sym_sizes(), of.value.options());
        const auto [of_query, of_key, of_value, of_gate, of_value_gate, of_state] =
            walk_back(of_output, or_none(gradients[1]), of);
        const auto if_given = [](const OptionalTensor& input, const at::Tensor& gradient) {
          return input ? gradient : at::Tensor();
        };
        return {of_query,
                of_key,
                of_value,
                if_given(of.gate, of_gate),
                if_given(of.value_gate, of_value_gate),
                if_given(of.initial_state, of_state)};
      });
  return walked;
}

WalkGradients walk_back_autograd(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                 const TokenWalk& walk) {
  variable_list inputs = inputs_of(walk);
  inputs.insert(inputs.begin(), {output_gradient, or_undefined(state_gradient)});
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  WalkGradients gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients = walk_back(output_gradient, state_gradient, walk);
  }
  if (!needs_record(inputs)) return gradients;
  const auto& [of_query, of_key, of_value, of_gate, of_value_gate, of_state] = gradients;
  record_saving("TokenWalkBackwardBackward", inputs, {of_query, of_key, of_value, of_gate, of_value_gate, of_state},
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_recurrent_derivative("second ones");
                });
  return gradients;
}

}  // namespace

Walked token_walk(const TokenWalk& walk) {
  using Operator = Unbundled<token_walk>;
  static const auto handle = find_operator<Operator::Signature>("cogwheel::token_walk");
  return Operator::dispatch(handle, walk);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(("token_walk(" + schema_of<TokenWalk>() + ") -> (Tensor output, Tensor state)").c_str());
  library.def(("token_walk_backward(Tensor output_gradient, Tensor? state_gradient, " + schema_of<TokenWalk>() +
               ") -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
                  .c_str());
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("token_walk", Unbundled<walk_cpu>::call);
  library.impl("token_walk_backward", Unbundled<walk_back_cpu>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("token_walk", Unbundled<walk_meta>::call);
  library.impl("token_walk_backward", Unbundled<walk_back_meta>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "token_walk");
  implement_on_host(library, "token_walk_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("token_walk", Unbundled<walk_autograd>::call);
  library.impl("token_walk_backward", Unbundled<walk_back_autograd>::call);
}

}  // namespace cogwheel
