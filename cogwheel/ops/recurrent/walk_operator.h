// What the operators of walks over tokens share: memory for results, and their places in the dispatcher and in autograd
// (token_walk.cpp, delta_walk.cpp, state_space.cpp).
//
// A walk is a struct of its inputs with its Bundle, an output [B, H, N, Dv] and last states. Those of its tensors that
// are not cu_seqlens have gradients, in the order of the schema. Its operator is a struct:
//
//   Walk, name ("token_walk"), node and second_node, the names of its nodes in autograd
//   check(walk)                              sizes, dtypes and devices
//   check_values(walk)                       of gates that lie on the host
//   sizes_of_states(walk)
//   forward(walk)                            by the CPU's engine, → Walked
//   backward(of_output, of_states, walk)     by the CPU's engine, → WalkGradients<Walk>
//
// All of them of what has been checked. is_launched(walk), launched(walk) and launched_back(of_output, of_states, walk)
// are the same by kernels for GPUs, for a walk that those serve.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "cogwheel/attention/kernels/heads_view.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/walk_launches.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {

template <class T>
HeadsView<const T> view_to_read(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
template <class T>
HeadsView<T> view_to_write(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

template <class Walk>
c10::SymInt sequences_of(const Walk& walk) {
  return walk.cu_seqlens ? walk.cu_seqlens->sym_size(0) - 1 : walk.value.sym_size(0);
}

using Walked = std::tuple<at::Tensor, at::Tensor>;

namespace walk_tensors {

template <class T>
inline constexpr bool is_tensor = std::is_same_v<T, at::Tensor> || std::is_same_v<T, OptionalTensor>;

template <class Walk>
inline constexpr std::size_t count = std::apply(
    [](const auto&... member) {
      return (std::size_t(is_tensor<typename std::remove_cvref_t<decltype(member)>::Type>) + ...) - 1;
    },
    Bundle<Walk>::members);

// run(tensor) for each that has a gradient; const or not as the walk is.
template <class Walk, class Run>
void for_each(Walk& walk, const Run& run) {
  const auto visit = [&](const auto& member) {
    if constexpr (is_tensor<typename std::remove_cvref_t<decltype(member)>::Type>)
      if (static_cast<const void*>(&(walk.*member.place)) != static_cast<const void*>(&walk.cu_seqlens))
        run(walk.*member.place);
  };
  std::apply([&](const auto&... member) { (visit(member), ...); }, Bundle<std::remove_const_t<Walk>>::members);
}

// Undefined where there is none.
template <class Walk>
variable_list list(const Walk& walk) {
  variable_list tensors;
  for_each(walk, [&](const OptionalTensor& tensor) { tensors.push_back(or_undefined(tensor)); });
  return tensors;
}

inline void assign(at::Tensor& to, const at::Tensor& tensor) { to = tensor; }
inline void assign(OptionalTensor& to, const at::Tensor& tensor) { to = or_none(tensor); }

// The walk with others in their places.
template <class Walk>
Walk replaced(Walk walk, const variable_list& tensors, const at::Tensor& cu_seqlens) {
  std::size_t i = 0;
  for_each(walk, [&](auto& tensor) { assign(tensor, tensors[i++]); });
  walk.cu_seqlens = or_none(cu_seqlens);
  return walk;
}

template <std::size_t>
using TensorAt = at::Tensor;
template <std::size_t... index>
std::tuple<TensorAt<index>...> as_tuple(const variable_list& tensors, std::index_sequence<index...>) {
  return {tensors[index]...};
}
template <std::size_t n>
auto as_tuple(const variable_list& tensors) {
  return as_tuple(tensors, std::make_index_sequence<n>());
}

}  // namespace walk_tensors

// Of each tensor that has one; empty where that is missing.
template <class Walk>
using WalkGradients = decltype(walk_tensors::as_tuple<walk_tensors::count<Walk>>({}));

// Of the output: as the value, with one more column where tokens are counted.
template <class Walk>
c10::SymDimVector output_sizes(const Walk& walk) {
  c10::SymDimVector sizes(walk.value.sym_sizes());
  if constexpr (requires { walk.counts; })
    if (walk.counts) sizes.back() = sizes.back() + 1;
  return sizes;
}

// Memory for the output and the last states, and for gradients.
template <class Operator>
Walked empty_walked(const typename Operator::Walk& walk) {
  const at::TensorOptions options = walk.value.options();
  return {at::empty_symint(output_sizes(walk), options), at::empty_symint(Operator::sizes_of_states(walk), options)};
}
template <class Walk>
WalkGradients<Walk> empty_walk_gradients(const Walk& walk) {
  const at::TensorOptions options = walk.value.options();
  variable_list gradients;
  walk_tensors::for_each(walk, [&](const OptionalTensor& tensor) {
    gradients.push_back(tensor ? at::empty_symint(tensor->sym_sizes(), options) : at::empty({0}, options));
  });
  return walk_tensors::as_tuple<walk_tensors::count<Walk>>(gradients);
}

template <class Operator>
Walked walk_on_meta(const typename Operator::Walk& walk) {
  Operator::check(walk);
  return empty_walked<Operator>(walk);
}
template <class Operator>
WalkGradients<typename Operator::Walk> walk_back_on_meta(const at::Tensor&, const OptionalTensor&,
                                                         const typename Operator::Walk& walk) {
  Operator::check(walk);
  return empty_walk_gradients(walk);
}

// A walk on the host, its results on the device.
template <class Walk>
Walk on_host(const Walk& walk) {
  variable_list tensors = walk_tensors::list(walk);
  for (at::Tensor& each : tensors)
    if (each.defined()) each = each.cpu();
  return walk_tensors::replaced(walk, tensors, walk.cu_seqlens ? walk.cu_seqlens->cpu() : at::Tensor());
}
template <class Operator>
Walked walk_with_data(const typename Operator::Walk& walk) {
  Operator::check(walk);
  if (!cpu_tensors_are_launched()) Operator::check_values(walk);  // else nothing is computed that they may come from
  if (is_launched(walk)) return launched(walk);
  const at::Device device = walk.value.device();
  if (device.is_cpu()) return Operator::forward(walk);
  const typename Operator::Walk there = on_host(walk);
  Operator::check(there);  // and the numbers, which can be seen now
  Operator::check_values(there);
  return on_device(Operator::forward(there), device);
}
template <class Operator>
WalkGradients<typename Operator::Walk> walk_back_with_data(const at::Tensor& of_output, const OptionalTensor& of_states,
                                                           const typename Operator::Walk& walk) {
  Operator::check(walk);
  if (is_launched(walk)) return launched_back(of_output, of_states, walk);
  const at::Device device = walk.value.device();
  if (device.is_cpu()) return Operator::backward(of_output, of_states, walk);
  const OptionalTensor host_states = of_states ? OptionalTensor(of_states->cpu()) : std::nullopt;
  const typename Operator::Walk there = on_host(walk);
  Operator::check(there);
  return on_device(Operator::backward(of_output.cpu(), host_states, there), device);
}

// By the dispatcher.
template <class Operator>
Walked call_walk(const typename Operator::Walk& walk) {
  using Call = Unbundled<walk_on_meta<Operator>>;
  static const auto handle =
      find_operator<typename Call::Signature>((std::string("cogwheel::") + Operator::name).c_str());
  return Call::dispatch(handle, walk);
}
template <class Operator>
WalkGradients<typename Operator::Walk> call_walk_back(const at::Tensor& of_output, const OptionalTensor& of_states,
                                                      const typename Operator::Walk& walk) {
  using Call = Unbundled<walk_back_on_meta<Operator>>;
  static const auto handle =
      find_operator<typename Call::Signature>((std::string("cogwheel::") + Operator::name + "_backward").c_str());
  return Call::dispatch(handle, of_output, of_states, walk);
}

template <class Operator>
Walked recorded_walk(const typename Operator::Walk& walk) {
  using Walk = typename Operator::Walk;
  const variable_list inputs = walk_tensors::list(walk);
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  Walked walked;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    walked = call_walk<Operator>(walk);
  }
  if (!needs_record(inputs)) return walked;
  record_saving(Operator::node, inputs, {std::get<0>(walked), std::get<1>(walked)},
                {.inputs = inputs, .outputs = {}, .constants = {or_undefined(walk.cu_seqlens)}},
                [settings = walk_tensors::replaced(walk, variable_list(inputs.size()), {})](
                    const variable_list& given, const variable_list& constants, const variable_list& gradients) {
                  const Walk again = walk_tensors::replaced(settings, given, constants[0]);
                  const at::Tensor of_output = gradients[0].defined()
                                                   ? gradients[0]
                                                   : at::zeros_symint(output_sizes(again), again.value.options());
                  variable_list all = std::apply([](const auto&... each) { return variable_list{each...}; },
                                                 call_walk_back<Operator>(of_output, or_none(gradients[1]), again));
                  for (std::size_t i = 0; i < all.size(); ++i)
                    if (!given[i].defined()) all[i] = at::Tensor();
                  return all;
                });
  return walked;
}

// Second derivatives are refused once somebody asks for them.
template <class Operator>
WalkGradients<typename Operator::Walk> recorded_walk_back(const at::Tensor& of_output, const OptionalTensor& of_states,
                                                          const typename Operator::Walk& walk) {
  variable_list inputs = walk_tensors::list(walk);
  inputs.insert(inputs.begin(), {of_output, or_undefined(of_states)});
  if (has_tangent(inputs)) refuse_recurrent_derivative("a tangent");
  WalkGradients<typename Operator::Walk> gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients = call_walk_back<Operator>(of_output, of_states, walk);
  }
  if (!needs_record(inputs)) return gradients;
  record_saving(Operator::second_node, inputs,
                std::apply([](const auto&... each) { return variable_list{each...}; }, gradients),
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_recurrent_derivative("second ones");
                });
  return gradients;
}

// In the blocks of TORCH_LIBRARY_FRAGMENT, and of TORCH_LIBRARY_IMPL for each key.
template <class Operator>
void define_walk(torch::Library& library) {
  using Walk = typename Operator::Walk;
  const std::string name = Operator::name, given = schema_of<Walk>();
  std::string gradients = "Tensor";
  for (std::size_t i = 1; i < walk_tensors::count<Walk>; ++i) gradients += ", Tensor";
  library.def((name + "(" + given + ") -> (Tensor output, Tensor state)").c_str());
  library.def((name + "_backward(Tensor output_gradient, Tensor? state_gradient, " + given + ") -> (" + gradients + ")")
                  .c_str());
}
template <auto forward, auto backward>
void implement_walk(torch::Library& library, const std::string& name) {
  library.impl(name.c_str(), Unbundled<forward>::call);
  library.impl((name + "_backward").c_str(), Unbundled<backward>::call);
}
template <class Operator>
void implement_walk_on_meta(torch::Library& library) {
  implement_walk<walk_on_meta<Operator>, walk_back_on_meta<Operator>>(library, Operator::name);
}
// Of the CPU, and of any other device.
template <class Operator>
void implement_walk_with_data(torch::Library& library) {
  implement_walk<walk_with_data<Operator>, walk_back_with_data<Operator>>(library, Operator::name);
}
template <class Operator>
void implement_walk_in_autograd(torch::Library& library) {
  implement_walk<recorded_walk<Operator>, recorded_walk_back<Operator>>(library, Operator::name);
}

}  // namespace cogwheel::ops
