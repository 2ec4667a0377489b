// cogwheel::state_space: the engine's walk on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/state_space.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "cogwheel/kernels/recurrent/state_space.h"
#include "cogwheel/ops/contiguous_width.h"
#include "cogwheel/ops/engine_registration.h"
#include "cogwheel/ops/executor.h"
#include "cogwheel/ops/find_operator.h"
#include "cogwheel/ops/recorded_node.h"
#include "cogwheel/ops/recurrent_checks.h"
#include "cogwheel/ops/sum_in_order.h"
#include "cogwheel/ops/walk_operator.h"

namespace cogwheel {
namespace {

using Outputs = std::tuple<at::Tensor, at::Tensor>;
// Of value, delta, a, query, key, b, c, skip and initial state; empty where there is none.
using SpaceGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                                  at::Tensor, at::Tensor>;

bool is_selective(const StateSpace& space) { return space.query.has_value(); }

c10::SymInt sequences_of(const StateSpace& space) {
  return space.cu_seqlens ? space.cu_seqlens->sym_size(0) - 1 : space.value.sym_size(0);
}

void check_state_space(const StateSpace& space) {
  const at::Tensor& value = space.value;
  const bool selective = is_selective(space);
  const auto check_presence = [](const char* name, const OptionalTensor& tensor, bool wanted) {
    if (tensor.has_value() != wanted)
      refuse_recurrent(name, wanted ? "a tensor" : "nothing", tensor ? "a tensor" : "nothing");
  };
  check_presence("key", space.key, selective);
  check_presence("b", space.b, !selective);
  check_presence("c", space.c, !selective);
  check_recurrent(space.query, space.key, value);
  check_computed("value", value);
  const at::Tensor query = selective ? *space.query : like_a_query(value, space.a);
  const auto check = [&](const char* name, const OptionalTensor& tensor, std::string_view axes) {
    if (tensor) check_recurrent_axes(name, *tensor, query, value, axes, std::nullopt, selective ? "query" : "value");
  };
  check("delta", space.delta, selective ? "BHNV" : "HV");
  check("a", space.a, selective ? "HDV|DV" : "HDV");
  check("b", space.b, "HDV");
  check("c", space.c, "HDV");
  check("skip", space.skip, selective ? "HV|V" : "HV");
  if (space.cu_seqlens) check_sequences(*space.cu_seqlens, query);
  if (space.initial_state)
    check_recurrent_state("initial_state", *space.initial_state, query,
                          {sequences_of(space), value.sym_size(1), query.sym_size(3), value.sym_size(3)});
}

Outputs empty_outputs(const StateSpace& space) {
  const at::TensorOptions options = space.value.options();
  return {at::empty_symint(space.value.sym_sizes(), options),
          at::empty_symint({sequences_of(space), space.value.sym_size(1), space.a.sym_size(-2), space.a.sym_size(-1)},
                           options)};
}

SpaceGradients empty_space_gradients(const StateSpace& space) {
  const auto beside = [&](const OptionalTensor& tensor) {
    return tensor ? at::empty_symint(tensor->sym_sizes(), space.value.options())
                  : at::empty({0}, space.value.options());
  };
  return {beside(space.value), beside(space.delta), beside(space.a),    beside(space.query),        beside(space.key),
          beside(space.b),     beside(space.c),     beside(space.skip), beside(space.initial_state)};
}

// The engine's problem, and the tensors that its pointers point into.
template <class T>
struct HeldSpace {
  std::vector<at::Tensor> held;
  StateSpaceProblem<T> problem;

  explicit HeldSpace(const StateSpace& space) {
    const auto rows = [this](const at::Tensor& tensor) {
      return view_to_read<T>(held.emplace_back(with_contiguous_width(tensor)));
    };
    // Of `rank` dimensions, and one more where it differs by head.
    const auto table = [this](const OptionalTensor& tensor, std::int64_t rank) -> HeadTable<const T> {
      if (!tensor) return {};
      const at::Tensor& kept = held.emplace_back(tensor->contiguous());
      return {kept.const_data_ptr<T>(), kept.dim() > rank ? kept.stride(0) : 0};
    };
    const at::Tensor& value = space.value;
    problem.shape = {sequences_of(space).expect_int(), value.size(1), value.size(2), space.a.size(-2), value.size(3)};
    problem.selective = is_selective(space);
    problem.scale = static_cast<T>(space.scale);
    problem.value = rows(value);
    problem.rate = table(space.a, 2);
    problem.skip = table(space.skip, 1);
    if (problem.selective) {
      problem.query = rows(*space.query);
      problem.key = rows(*space.key);
      problem.delta = rows(space.delta);
    } else {
      problem.write = table(space.b, 2);
      problem.read = table(space.c, 2);
      const HeadTable<const T> delta = table(space.delta, 1);
      problem.delta = {delta.data, 0, delta.head_stride, 0};
    }
    if (space.initial_state)
      problem.initial_state = held.emplace_back(space.initial_state->contiguous()).template const_data_ptr<T>();
    if (space.cu_seqlens)
      problem.shape.first_tokens =
          held.emplace_back(space.cu_seqlens->contiguous()).template const_data_ptr<std::int64_t>();
  }
};

void check_state_space_values(const StateSpace& space) {
  check_state_space(space);
  check_recurrent_values("delta", space.delta, Values::at_least_0);
  check_recurrent_values("a", space.a, Values::below_0);
  if (space.cu_seqlens) check_sequence_bounds(*space.cu_seqlens, space.value.size(2));
}

Outputs space_cpu(const StateSpace& space) {
  check_state_space_values(space);
  const Outputs outputs = empty_outputs(space);
  AT_DISPATCH_FLOATING_TYPES(space.value.scalar_type(), "cogwheel::state_space", [&] {
    const HeldSpace<scalar_t> held(space);
    StateSpaceForward<scalar_t> problem{held.problem};
    problem.output = view_to_write<scalar_t>(std::get<0>(outputs));
    problem.state = std::get<1>(outputs).mutable_data_ptr<scalar_t>();
    state_space_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return outputs;
}

Outputs space_meta(const StateSpace& space) {
  check_state_space(space);
  return empty_outputs(space);
}

// Of each sequence and head [sequences, H, …] to the sizes of what was given once for all of them.
at::Tensor over_sequences(const at::Tensor& each, const at::Tensor& given) {
  if (each.numel() == given.numel()) return each.view(given.sizes());
  const bool by_head = given.dim() + 1 == each.dim();
  const std::int64_t rows = each.dim() == 4 ? each.size(2) : 1, columns = each.size(-1);
  return sum_in_order(each.view({each.size(0), each.size(1), rows, columns}), 1,
                      {1, by_head ? each.size(1) : 1, rows, columns})
      .view(given.sizes());
}

SpaceGradients space_back_cpu(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                              const StateSpace& space) {
  check_state_space(space);
  SpaceGradients gradients = empty_space_gradients(space);
  auto& [of_value, of_delta, of_a, of_query, of_key, of_b, of_c, of_skip, of_state] = gradients;
  const bool selective = is_selective(space);
  AT_DISPATCH_FLOATING_TYPES(space.value.scalar_type(), "cogwheel::state_space_backward", [&] {
    const HeldSpace<scalar_t> held(space);
    StateSpaceBackward<scalar_t> problem{held.problem};
    const RecurrentShape& shape = problem.shape;
    const at::Tensor of_output = with_contiguous_width(output_gradient),
                     of_last = state_gradient ? state_gradient->contiguous() : at::Tensor();
    problem.output_gradient = view_to_read<scalar_t>(of_output);
    if (state_gradient) problem.state_gradient = of_last.const_data_ptr<scalar_t>();
    problem.value_gradient = view_to_write<scalar_t>(of_value);
    if (space.initial_state) problem.initial_state_gradient = of_state.mutable_data_ptr<scalar_t>();
    const auto each = [&](bool wanted, bool rows) {
      std::vector<std::int64_t> sizes{shape.sequences, shape.heads};
      if (rows) sizes.push_back(shape.key_width);
      sizes.push_back(shape.value_width);
      return wanted ? at::empty(sizes, space.value.options()) : at::Tensor();
    };
    const at::Tensor each_a = each(true, true), each_b = each(!selective, true), each_c = each(!selective, true),
                     each_delta = each(!selective, false), each_skip = each(space.skip.has_value(), false);
    problem.rate_gradient = each_a.mutable_data_ptr<scalar_t>();
    if (space.skip) problem.skip_gradient = each_skip.mutable_data_ptr<scalar_t>();
    if (selective) {
      problem.query_gradient = view_to_write<scalar_t>(of_query);
      problem.key_gradient = view_to_write<scalar_t>(of_key);
      problem.delta_gradient = view_to_write<scalar_t>(of_delta);
    } else {
      problem.write_gradient = each_b.mutable_data_ptr<scalar_t>();
      problem.read_gradient = each_c.mutable_data_ptr<scalar_t>();
      problem.delta_gradient = {each_delta.mutable_data_ptr<scalar_t>(), each_delta.stride(0), each_delta.stride(1), 0};
    }
    state_space_kernel<scalar_t>().backward(problem, TorchExecutor());
    of_a = over_sequences(each_a, space.a);
    if (space.skip) of_skip = over_sequences(each_skip, *space.skip);
    if (selective) return;
    of_b = over_sequences(each_b, *space.b);
    of_c = over_sequences(each_c, *space.c);
    of_delta = over_sequences(each_delta, space.delta);
  });
  return gradients;
}

SpaceGradients space_back_meta(const at::Tensor&, const OptionalTensor&, const StateSpace& space) {
  check_state_space(space);
  return empty_space_gradients(space);
}

SpaceGradients space_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                          const StateSpace& space) {
  using UnbundledCall = Unbundled<space_back>;
  static const auto handle = find_operator<UnbundledCall::Signature>("cogwheel::state_space_backward");
  return UnbundledCall::dispatch(handle, output_gradient, state_gradient, space);
}

variable_list tensors_of(const StateSpace& space) {
  return {space.value,
          space.delta,
          space.a,
          or_undefined(space.query),
          or_undefined(space.key),
          or_undefined(space.b),
          or_undefined(space.c),
          or_undefined(space.skip),
          or_undefined(space.initial_state)};
}

Outputs space_autograd(const StateSpace& space) {
  const variable_list inputs = tensors_of(space);
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  Outputs outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = state_space(space);
  }
  if (!needs_record(inputs)) return outputs;
  variable_list saved = inputs;
  saved.push_back(or_undefined(space.cu_seqlens));
  record_saving("StateSpaceBackward", inputs, {std::get<0>(outputs), std::get<1>(outputs)},
                {.inputs = saved, .outputs = {}, .constants = {}},
                [scale = space.scale](const variable_list& given, const variable_list&,
                                      const variable_list& gradients) -> variable_list {
                  const StateSpace again{.value = given[0],
                                         .delta = given[1],
                                         .a = given[2],
                                         .query = or_none(given[3]),
                                         .key = or_none(given[4]),
                                         .b = or_none(given[5]),
                                         .c = or_none(given[6]),
                                         .skip = or_none(given[7]),
                                         .initial_state = or_none(given[8]),
                                         .cu_seqlens = or_none(given[9]),
                                         .scale = scale};
                  const at::Tensor of_output = gradients[0].defined()
                                                   ? gradients[0]
                                                   : at::zeros_symint(given[0].sym_sizes(), given[0].options());
                  const SpaceGradients made = space_back(of_output, or_none(gradients[1]), again);
                  variable_list all = std::apply([](const auto&... each) { return variable_list{each...}; }, made);
                  for (std::size_t i = 0; i < all.size(); ++i)
                    if (!given[i].defined()) all[i] = at::Tensor();
                  return all;
                });
  return outputs;
}

SpaceGradients space_back_autograd(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                   const StateSpace& space) {
  variable_list inputs{output_gradient, or_undefined(state_gradient)};
  for (const at::Tensor& each : tensors_of(space)) inputs.push_back(each);
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  SpaceGradients gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients = space_back(output_gradient, state_gradient, space);
  }
  if (!needs_record(inputs)) return gradients;
  record_saving("StateSpaceBackwardBackward", inputs,
                std::apply([](const auto&... each) { return variable_list{each...}; }, gradients),
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_recurrent_derivative("second ones");
                });
  return gradients;
}

}  // namespace

at::Tensor like_a_query(const at::Tensor& value, const at::Tensor& a) {
  const c10::SymInt width = a.dim() < 2 ? c10::SymInt(1) : a.sym_size(-2);
  return value.narrow_symint(-1, 0, 1).expand_symint({value.sym_size(0), value.sym_size(1), value.sym_size(2), width});
}

Outputs state_space(const StateSpace& space) {
  using UnbundledCall = Unbundled<state_space>;
  static const auto handle = find_operator<UnbundledCall::Signature>("cogwheel::state_space");
  return UnbundledCall::dispatch(handle, space);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  const std::string given = schema_of<StateSpace>();
  library.def(("state_space(" + given + ") -> (Tensor output, Tensor state)").c_str());
  library.def(("state_space_backward(Tensor output_gradient, Tensor? state_gradient, " + given +
               ") -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
                  .c_str());
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("state_space", Unbundled<space_cpu>::call);
  library.impl("state_space_backward", Unbundled<space_back_cpu>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("state_space", Unbundled<space_meta>::call);
  library.impl("state_space_backward", Unbundled<space_back_meta>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "state_space");
  implement_on_host(library, "state_space_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("state_space", Unbundled<space_autograd>::call);
  library.impl("state_space_backward", Unbundled<space_back_autograd>::call);
}

}  // namespace cogwheel
