// cogwheel::token_walk: the engine's walk on the CPU, shapes without data, and its place in autograd.
#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "cogwheel/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/bundle.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/contiguous_width.h"
#include "cogwheel/ops/engine_registration.h"
#include "cogwheel/ops/executor.h"
#include "cogwheel/ops/find_operator.h"
#include "cogwheel/ops/recorded_node.h"
#include "cogwheel/ops/recurrent.h"
#include "cogwheel/ops/recurrent_checks.h"
#include "cogwheel/ops/walk_operator.h"

namespace cogwheel {
namespace {

using Walked = std::tuple<at::Tensor, at::Tensor>;
// Of query, key, value, gate and initial state; empty where there is none of the last two.
using WalkGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

const RecurrentLaw& check_walk(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const OptionalTensor& gate, const OptionalTensor& initial_state,
                               c10::string_view mechanism) {
  const RecurrentLaw& law = checked_recurrent_law({mechanism.data(), mechanism.size()});
  if (gate.has_value() != !law.gate().empty())
    refuse_recurrent("gate", law.gate().empty() ? "nothing" : "a tensor", gate ? "a tensor" : "nothing");
  check_recurrent(law, query, key, value, gate);
  if (computed_type(query) != query.scalar_type() || (gate && gate->scalar_type() != query.scalar_type()))
    refuse_recurrent("query dtype", "float32 or float64, for the gate too", c10::toString(query.scalar_type()));
  if (initial_state)
    check_recurrent_state("initial_state", *initial_state, query,
                          {query.sym_size(0), query.sym_size(1), query.sym_size(3), value.sym_size(3)});
  return law;
}

Walked empty_walked(const at::Tensor& query, const at::Tensor& value) {
  return {
      at::empty_symint(value.sym_sizes(), value.options()),
      at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(3), value.sym_size(3)}, value.options())};
}

WalkGradients empty_walk_gradients(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const OptionalTensor& gate, const OptionalTensor& initial_state) {
  return {empty_beside(query, query), empty_beside(query, key), empty_beside(query, value), empty_beside(query, gate),
          empty_beside(query, initial_state)};
}

// A gate as rows of width 1, or of its own.
at::Tensor gate_rows(const RecurrentLaw& law, const at::Tensor& gate) {
  switch (law.transition) {
    case Transition::constant:
      return gate.view({1, -1, 1, 1}).expand({1, gate.size(0), 1, 1});
    case Transition::per_token:
      return gate.unsqueeze(-1);
    default:
      return with_contiguous_width(gate);
  }
}

// What a problem's pointers point to, alive for the length of a call.
struct HeldWalk {
  at::Tensor query, key, value, gate, initial_state;
};

template <class T>
RecurrentProblem<T> describe_walk(const RecurrentLaw& law, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const OptionalTensor& gate,
                                  const OptionalTensor& initial_state, double scale, HeldWalk& held) {
  held = {with_contiguous_width(query), with_contiguous_width(key), with_contiguous_width(value),
          gate ? gate_rows(law, *gate) : at::Tensor(), initial_state ? initial_state->contiguous() : at::Tensor()};
  RecurrentProblem<T> problem;
  problem.shape = {query.size(0), query.size(1), query.size(2), query.size(3), value.size(3)};
  problem.transition = law.transition;
  problem.scale = static_cast<T>(scale);
  problem.query = view_to_read<T>(held.query);
  problem.key = view_to_read<T>(held.key);
  problem.value = view_to_read<T>(held.value);
  if (gate) {
    const bool constant = law.transition == Transition::constant;  // one row for the head, whichever the token
    problem.gate = {held.gate.const_data_ptr<T>(), constant ? 0 : held.gate.stride(0), held.gate.stride(1),
                    constant ? 0 : held.gate.stride(2)};
  }
  if (initial_state) problem.initial_state = held.initial_state.const_data_ptr<T>();
  return problem;
}

Walked walk_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& gate,
                const OptionalTensor& initial_state, c10::string_view mechanism, double scale) {
  const RecurrentLaw& law = check_walk(query, key, value, gate, initial_state, mechanism);
  if (gate) check_gate_values(law, *gate);
  const Walked walked = empty_walked(query, value);
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::token_walk", [&] {
    HeldWalk held;
    RecurrentForward<scalar_t> problem{
        describe_walk<scalar_t>(law, query, key, value, gate, initial_state, scale, held)};
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return walked;
}

Walked walk_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& gate,
                 const OptionalTensor& initial_state, c10::string_view mechanism, double) {
  check_walk(query, key, value, gate, initial_state, mechanism);
  return empty_walked(query, value);
}

WalkGradients walk_back_cpu(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                            const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const OptionalTensor& gate, const OptionalTensor& initial_state, c10::string_view mechanism,
                            double scale) {
  const RecurrentLaw& law = check_walk(query, key, value, gate, initial_state, mechanism);
  WalkGradients gradients = empty_walk_gradients(query, key, value, gate, initial_state);
  auto& [of_query, of_key, of_value, of_gate, of_state] = gradients;
  const bool constant = law.transition == Transition::constant;
  const at::Tensor of_gate_rows = constant
                                      ? at::empty({query.size(0), query.size(1), 1, 1}, query.options())
                                      : (law.transition == Transition::per_token ? of_gate.unsqueeze(-1) : of_gate);
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::token_walk_backward", [&] {
    HeldWalk held;
    RecurrentBackward<scalar_t> problem{
        describe_walk<scalar_t>(law, query, key, value, gate, initial_state, scale, held)};
    const at::Tensor of_output = with_contiguous_width(output_gradient),
                     of_last = state_gradient ? state_gradient->contiguous() : at::Tensor();
    problem.output_gradient = view_to_read<scalar_t>(of_output);
    if (state_gradient) problem.state_gradient = of_last.const_data_ptr<scalar_t>();
    problem.query_gradient = view_to_write<scalar_t>(of_query);
    problem.key_gradient = view_to_write<scalar_t>(of_key);
    problem.value_gradient = view_to_write<scalar_t>(of_value);
    if (gate) problem.gate_gradient = view_to_write<scalar_t>(of_gate_rows);
    if (initial_state) problem.initial_state_gradient = of_state.mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().backward(problem, TorchExecutor());
    if (constant) {  // summed in the order of the batch, whatever the number of threads
      const std::int64_t heads = query.size(1);
      const scalar_t* each = of_gate_rows.const_data_ptr<scalar_t>();
      scalar_t* sums = of_gate.mutable_data_ptr<scalar_t>();
      std::fill_n(sums, heads, scalar_t(0));
      for (std::int64_t i = 0; i < query.size(0) * heads; ++i) sums[i % heads] += each[i];
    }
  });
  return gradients;
}

WalkGradients walk_back_meta(const at::Tensor&, const OptionalTensor&, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const OptionalTensor& gate, const OptionalTensor& initial_state,
                             c10::string_view mechanism, double) {
  check_walk(query, key, value, gate, initial_state, mechanism);
  return empty_walk_gradients(query, key, value, gate, initial_state);
}

WalkGradients walk_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                        const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const OptionalTensor& gate, const OptionalTensor& initial_state, c10::string_view mechanism,
                        double scale) {
  static const auto handle = find_operator<decltype(walk_back)>("cogwheel::token_walk_backward");
  return handle.call(output_gradient, state_gradient, query, key, value, gate, initial_state, mechanism, scale);
}

Walked walk_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const OptionalTensor& gate, const OptionalTensor& initial_state, c10::string_view mechanism,
                     double scale) {
  const variable_list inputs{query, key, value, or_undefined(gate), or_undefined(initial_state)};
  if (has_tangent(inputs)) refuse_derivative("a tangent");
  Walked walked;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    walked = operators::token_walk(query, key, value, gate, initial_state, mechanism, scale);
  }
  if (!needs_record(inputs)) return walked;
  record_saving("TokenWalkBackward", inputs, {std::get<0>(walked), std::get<1>(walked)},
                {.inputs = inputs, .outputs = {}, .constants = {}},
                [name = std::string(mechanism.data(), mechanism.size()), scale](
                    const variable_list& given, const variable_list&, const variable_list& gradients) -> variable_list {
                  const at::Tensor& values = given[2];
                  const at::Tensor of_output =
                      gradients[0].defined() ? gradients[0] : at::zeros_symint(values.sym_sizes(), values.options());
                  const auto [of_query, of_key, of_value, of_gate, of_state] =
                      walk_back(of_output, or_none(gradients[1]), given[0], given[1], values, or_none(given[3]),
                                or_none(given[4]), name, scale);
                  return {of_query, of_key, of_value, given[3].defined() ? of_gate : at::Tensor(),
                          given[4].defined() ? of_state : at::Tensor()};
                });
  return walked;
}

WalkGradients walk_back_autograd(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                 const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 const OptionalTensor& gate, const OptionalTensor& initial_state,
                                 c10::string_view mechanism, double scale) {
  const variable_list inputs{output_gradient,    or_undefined(state_gradient), query, key, value,
                             or_undefined(gate), or_undefined(initial_state)};
  if (has_tangent(inputs)) refuse_derivative("a tangent");
  WalkGradients gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients = walk_back(output_gradient, state_gradient, query, key, value, gate, initial_state, mechanism, scale);
  }
  if (!needs_record(inputs)) return gradients;
  const auto& [of_query, of_key, of_value, of_gate, of_state] = gradients;
  record_saving("TokenWalkBackwardBackward", inputs, {of_query, of_key, of_value, of_gate, of_state},
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_derivative("second ones");
                });
  return gradients;
}

}  // namespace

Walked operators::token_walk(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& gate, const OptionalTensor& initial_state,
                             c10::string_view mechanism, double scale) {
  static const auto handle = find_operator<decltype(operators::token_walk)>("cogwheel::token_walk");
  return handle.call(query, key, value, gate, initial_state, mechanism, scale);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "token_walk(Tensor query, Tensor key, Tensor value, Tensor? gate, Tensor? initial_state, str mechanism, float "
      "scale) -> (Tensor output, Tensor state)");
  library.def(
      "token_walk_backward(Tensor output_gradient, Tensor? state_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor? gate, Tensor? initial_state, str mechanism, float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("token_walk", walk_cpu);
  library.impl("token_walk_backward", walk_back_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("token_walk", walk_meta);
  library.impl("token_walk_backward", walk_back_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "token_walk");
  implement_on_host(library, "token_walk_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("token_walk", walk_autograd);
  library.impl("token_walk_backward", walk_back_autograd);
}

}  // namespace cogwheel
