// cogwheel::delta_walk: the walk by a delta rule on the CPU, shapes without data, and its place in autograd.
#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "cogwheel/kernels/recurrent/recurrent.h"
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

using DeltaWalked = std::tuple<at::Tensor, at::Tensor>;
// Of query, key, value, beta, log decay and initial state; empty where there is none of the last two.
using DeltaGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_delta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& beta,
                 const OptionalTensor& log_decay, const OptionalTensor& initial_state) {
  check_recurrent({}, query, key, value, std::nullopt);
  if (computed_type(query) != query.scalar_type())
    refuse_recurrent("query dtype", "float32 or float64", c10::toString(query.scalar_type()));
  const std::vector<c10::SymInt> of_tokens{query.sym_size(0), query.sym_size(1), query.sym_size(2)};
  check_recurrent_state("beta", beta, query, of_tokens);
  if (log_decay)
    check_recurrent_state("log_decay", *log_decay, query, log_decay->dim() == 3 ? of_tokens : query.sym_sizes().vec());
  if (initial_state)
    check_recurrent_state("initial_state", *initial_state, query,
                          {query.sym_size(0), query.sym_size(1), query.sym_size(3), value.sym_size(3)});
}

DeltaWalked empty_delta_walked(const at::Tensor& query, const at::Tensor& value) {
  return {
      at::empty_symint(value.sym_sizes(), value.options()),
      at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(3), value.sym_size(3)}, value.options())};
}

DeltaGradients empty_delta_gradients(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                     const at::Tensor& beta, const OptionalTensor& log_decay,
                                     const OptionalTensor& initial_state) {
  return {empty_beside(query, query), empty_beside(query, key),       empty_beside(query, value),
          empty_beside(query, beta),  empty_beside(query, log_decay), empty_beside(query, initial_state)};
}

// A number for each token, or a row of them, as rows.
at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(-1) : with_contiguous_width(tensor);
}

// What a problem's pointers point to, alive for the length of a call.
struct HeldDeltaWalk {
  at::Tensor query, key, value, beta, log_decay, initial_state;

  HeldDeltaWalk(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& b,
                const OptionalTensor& decay, const OptionalTensor& state)
      : query(with_contiguous_width(q)),
        key(with_contiguous_width(k)),
        value(with_contiguous_width(v)),
        beta(as_rows(b)),
        log_decay(decay ? as_rows(*decay) : at::Tensor()),
        initial_state(state ? state->contiguous() : at::Tensor()) {}

  // DeltaForward or DeltaBackward.
  template <class T, class Problem>
  void describe(double scale, bool decays_per_channel, Problem& problem) const {
    problem.shape = {query.size(0), query.size(1), query.size(2), query.size(3), value.size(3)};
    problem.scale = static_cast<T>(scale);
    problem.query = view_to_read<T>(query);
    problem.key = view_to_read<T>(key);
    problem.value = view_to_read<T>(value);
    problem.beta = view_to_read<T>(beta);
    if (log_decay.defined()) {
      problem.transition = decays_per_channel ? Transition::per_channel : Transition::per_token;
      problem.gate = view_to_read<T>(log_decay);
    }
    if (initial_state.defined()) problem.initial_state = initial_state.const_data_ptr<T>();
  }
};

DeltaWalked delta_walk_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& beta, const OptionalTensor& log_decay, const OptionalTensor& initial_state,
                           double scale) {
  check_delta(query, key, value, beta, log_decay, initial_state);
  check_values_within("beta", beta, 0, 2, "values in 0…2");
  if (log_decay)
    check_values_within("log_decay", *log_decay, -std::numeric_limits<double>::infinity(), 0, "values of at most 0");
  const DeltaWalked walked = empty_delta_walked(query, value);
  const HeldDeltaWalk held(query, key, value, beta, log_decay, initial_state);
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::delta_walk", [&] {
    DeltaForward<scalar_t> problem;
    held.describe<scalar_t>(scale, log_decay && log_decay->dim() == 4, problem);
    problem.output = view_to_write<scalar_t>(std::get<0>(walked));
    problem.state = std::get<1>(walked).mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().delta_forward(problem, TorchExecutor());
  });
  return walked;
}

DeltaWalked delta_walk_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& beta, const OptionalTensor& log_decay,
                            const OptionalTensor& initial_state, double) {
  check_delta(query, key, value, beta, log_decay, initial_state);
  return empty_delta_walked(query, value);
}

DeltaGradients delta_walk_back_cpu(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                   const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const at::Tensor& beta, const OptionalTensor& log_decay,
                                   const OptionalTensor& initial_state, double scale) {
  check_delta(query, key, value, beta, log_decay, initial_state);
  DeltaGradients gradients = empty_delta_gradients(query, key, value, beta, log_decay, initial_state);
  const auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  const HeldDeltaWalk held(query, key, value, beta, log_decay, initial_state);
  const at::Tensor of_output = with_contiguous_width(output_gradient),
                   of_last = state_gradient ? state_gradient->contiguous() : at::Tensor();
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::delta_walk_backward", [&] {
    DeltaBackward<scalar_t> problem;
    held.describe<scalar_t>(scale, log_decay && log_decay->dim() == 4, problem);
    problem.output_gradient = view_to_read<scalar_t>(of_output);
    if (state_gradient) problem.state_gradient = of_last.const_data_ptr<scalar_t>();
    problem.query_gradient = view_to_write<scalar_t>(of_query);
    problem.key_gradient = view_to_write<scalar_t>(of_key);
    problem.value_gradient = view_to_write<scalar_t>(of_value);
    problem.beta_gradient = view_to_write<scalar_t>(as_rows(of_beta));
    if (log_decay) problem.gate_gradient = view_to_write<scalar_t>(as_rows(of_log_decay));
    if (initial_state) problem.initial_state_gradient = of_state.mutable_data_ptr<scalar_t>();
    recurrent_kernel<scalar_t>().delta_backward(problem, TorchExecutor());
  });
  return gradients;
}

DeltaGradients delta_walk_back_meta(const at::Tensor&, const OptionalTensor&, const at::Tensor& query,
                                    const at::Tensor& key, const at::Tensor& value, const at::Tensor& beta,
                                    const OptionalTensor& log_decay, const OptionalTensor& initial_state, double) {
  check_delta(query, key, value, beta, log_decay, initial_state);
  return empty_delta_gradients(query, key, value, beta, log_decay, initial_state);
}

DeltaGradients delta_walk_back(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                               const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const at::Tensor& beta, const OptionalTensor& log_decay,
                               const OptionalTensor& initial_state, double scale) {
  static const auto handle = find_operator<decltype(delta_walk_back)>("cogwheel::delta_walk_backward");
  return handle.call(output_gradient, state_gradient, query, key, value, beta, log_decay, initial_state, scale);
}

DeltaWalked delta_walk_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& beta, const OptionalTensor& log_decay,
                                const OptionalTensor& initial_state, double scale) {
  const variable_list inputs{query, key, value, beta, or_undefined(log_decay), or_undefined(initial_state)};
  if (has_tangent(inputs)) refuse_derivative("a tangent");
  DeltaWalked walked;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    walked = operators::delta_walk(query, key, value, beta, log_decay, initial_state, scale);
  }
  if (!needs_record(inputs)) return walked;
  record_saving(
      "DeltaWalkBackward", inputs, {std::get<0>(walked), std::get<1>(walked)},
      {.inputs = inputs, .outputs = {}, .constants = {}},
      [scale](const variable_list& given, const variable_list&, const variable_list& gradients) -> variable_list {
        const at::Tensor& values = given[2];
        const at::Tensor of_output =
            gradients[0].defined() ? gradients[0] : at::zeros_symint(values.sym_sizes(), values.options());
        const auto [of_query, of_key, of_value, of_beta, of_log_decay, of_state] =
            delta_walk_back(of_output, or_none(gradients[1]), given[0], given[1], values, given[3], or_none(given[4]),
                            or_none(given[5]), scale);
        return {of_query,
                of_key,
                of_value,
                of_beta,
                given[4].defined() ? of_log_decay : at::Tensor(),
                given[5].defined() ? of_state : at::Tensor()};
      });
  return walked;
}

DeltaGradients delta_walk_back_autograd(const at::Tensor& output_gradient, const OptionalTensor& state_gradient,
                                        const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& beta, const OptionalTensor& log_decay,
                                        const OptionalTensor& initial_state, double scale) {
  const variable_list inputs{output_gradient,         or_undefined(state_gradient), query, key, value, beta,
                             or_undefined(log_decay), or_undefined(initial_state)};
  if (has_tangent(inputs)) refuse_derivative("a tangent");
  DeltaGradients gradients;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    gradients =
        delta_walk_back(output_gradient, state_gradient, query, key, value, beta, log_decay, initial_state, scale);
  }
  if (!needs_record(inputs)) return gradients;
  const auto& [of_query, of_key, of_value, of_beta, of_log_decay, of_state] = gradients;
  record_saving("DeltaWalkBackwardBackward", inputs, {of_query, of_key, of_value, of_beta, of_log_decay, of_state},
                {.inputs = {}, .outputs = {}, .constants = {}},
                [](const variable_list&, const variable_list&, const variable_list&) -> variable_list {
                  refuse_derivative("second ones");
                });
  return gradients;
}

}  // namespace

DeltaWalked operators::delta_walk(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& beta, const OptionalTensor& log_decay,
                                  const OptionalTensor& initial_state, double scale) {
  static const auto handle = find_operator<decltype(operators::delta_walk)>("cogwheel::delta_walk");
  return handle.call(query, key, value, beta, log_decay, initial_state, scale);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "delta_walk(Tensor query, Tensor key, Tensor value, Tensor beta, Tensor? log_decay, Tensor? initial_state, float "
      "scale) -> (Tensor output, Tensor state)");
  library.def(
      "delta_walk_backward(Tensor output_gradient, Tensor? state_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor beta, Tensor? log_decay, Tensor? initial_state, float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("delta_walk", delta_walk_cpu);
  library.impl("delta_walk_backward", delta_walk_back_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("delta_walk", delta_walk_meta);
  library.impl("delta_walk_backward", delta_walk_back_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  implement_on_host(library, "delta_walk");
  implement_on_host(library, "delta_walk_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("delta_walk", delta_walk_autograd);
  library.impl("delta_walk_backward", delta_walk_back_autograd);
}

}  // namespace cogwheel
