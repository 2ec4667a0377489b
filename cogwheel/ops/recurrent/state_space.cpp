// cogwheel::state_space: the engine's walk on the CPU, shapes without data, and its place in autograd.
#include "cogwheel/ops/recurrent/state_space.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "cogwheel/attention/kernels/recurrent/state_space.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/state_space_launches.h"
#include "cogwheel/ops/recurrent/walk_operator.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/sum_in_order.h"

namespace cogwheel::ops {
namespace {

struct StateSpaceOperator {
  using Walk = StateSpace;
  static constexpr const char *name = "state_space", *node = "StateSpaceBackward",
                              *second_node = "StateSpaceBackwardBackward";
  static void check(const StateSpace& space);
  static void check_values(const StateSpace& space);
  static std::array<c10::SymInt, 4> sizes_of_states(const StateSpace& space) {
    return {sequences_of(space), space.value.sym_size(1), space.a.sym_size(-2), space.a.sym_size(-1)};
  }
  static Walked forward(const StateSpace& space);
  static WalkGradients<StateSpace> backward(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                            const StateSpace& space);
};

bool is_selective(const StateSpace& space) { return space.query.has_value(); }

void StateSpaceOperator::check(const StateSpace& space) {
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
  const auto check_axes = [&](const char* name, const OptionalTensor& tensor, std::string_view axes) {
    if (tensor) check_recurrent_axes(name, *tensor, query, value, axes, std::nullopt, selective ? "query" : "value");
  };
  check_axes("delta", space.delta, selective ? "BHNV" : "HV");
  check_axes("a", space.a, selective ? "HDV|DV" : "HDV");
  check_axes("b", space.b, "HDV");
  check_axes("c", space.c, "HDV");
  check_axes("skip", space.skip, selective ? "HV|V" : "HV");
  if (space.cu_seqlens) check_sequences(*space.cu_seqlens, query);
  if (space.initial_state) check_recurrent_state("initial_state", *space.initial_state, query, sizes_of_states(space));
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

void StateSpaceOperator::check_values(const StateSpace& space) {
  check_recurrent_values("delta", space.delta, Values::at_least_0);
  check_recurrent_values("a", space.a, Values::below_0);
}

Walked StateSpaceOperator::forward(const StateSpace& space) {
  const Walked outputs = empty_walked<StateSpaceOperator>(space);
  AT_DISPATCH_FLOATING_TYPES(space.value.scalar_type(), "cogwheel::state_space", [&] {
    const HeldSpace<scalar_t> held(space);
    StateSpaceForward<scalar_t> problem{held.problem};
    problem.output = view_to_write<scalar_t>(std::get<0>(outputs));
    problem.state = std::get<1>(outputs).mutable_data_ptr<scalar_t>();
    state_space_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return outputs;
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

WalkGradients<StateSpace> StateSpaceOperator::backward(const at::Tensor& output_gradient,
                                                       const OptionalTensor& state_gradient, const StateSpace& space) {
  WalkGradients<StateSpace> gradients = empty_walk_gradients(space);
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

}  // namespace

at::Tensor like_a_query(const at::Tensor& value, const at::Tensor& a) {
  const c10::SymInt width = a.dim() < 2 ? c10::SymInt(1) : a.sym_size(-2);
  return value.narrow_symint(-1, 0, 1).expand_symint({value.sym_size(0), value.sym_size(1), value.sym_size(2), width});
}

Walked state_space(const StateSpace& space) { return call_walk<StateSpaceOperator>(space); }

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { define_walk<StateSpaceOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { implement_walk_with_data<StateSpaceOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { implement_walk_on_meta<StateSpaceOperator>(library); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_walk_with_data<StateSpaceOperator>(library);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { implement_walk_in_autograd<StateSpaceOperator>(library); }

}  // namespace cogwheel::ops
