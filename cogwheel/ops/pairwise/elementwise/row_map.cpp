#include "cogwheel/ops/pairwise/elementwise/row_map.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/attention/authoring/row_map_trace.h"
#include "cogwheel/attention/kernels/pairwise/row_map_values.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/elementwise/traced_row_map.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

constexpr std::string_view terms = "terms", normalizer = "normalizer", energy = "energy";

RowMapFunction function_of(std::string_view name) {
  if (name == terms) return RowMapFunction::terms;
  if (name == normalizer) return RowMapFunction::normalizer;
  if (name == energy) return RowMapFunction::energy;
  refuse("function", "terms, normalizer or energy", std::string(name));
}

at::Tensor empty_values(const at::Tensor& argument, const at::Tensor& parameters, std::string_view function,
                        std::int64_t order) {
  TORCH_CHECK_NOT_IMPLEMENTED(order <= max_derivative_order,
                              "attention: derivative: expected the first or the second, got a higher one");
  const RowMapFunction wanted = function_of(function);
  if (wanted == RowMapFunction::energy && order > 0)
    refuse("order", "0 (an energy has no derivatives)", std::to_string(order));
  std::vector<c10::SymInt> sizes{channels_of(wanted)};
  for (std::int64_t i = 0; i < order; ++i) sizes.push_back(parameters.sym_size(1) + 1);
  for (const c10::SymInt& size : argument.sym_sizes()) sizes.push_back(size);
  return at::empty_symint(sizes, argument.options());
}

at::Tensor values_cpu(const at::Tensor& argument_, const at::Tensor& shift, const at::Tensor& visible,
                      const at::Tensor& parameters_, c10::string_view mechanism, c10::string_view function,
                      std::int64_t order) {
  if (argument_.dim() != 4) refuse("argument", "[B, H, N, M]", shape_text(argument_));
  const at::Tensor values = empty_values(argument_, parameters_, function, order);
  if (values.numel() == 0) return values;
  const at::Tensor argument = argument_.contiguous(), parameters = parameters_.to(at::kDouble).contiguous();
  if (parameters.dim() != 2 || parameters.size(0) != argument.size(1))
    refuse("parameters", "[H, P]", shape_text(parameters));
  const at::Tensor shifts = shift.expand(argument.sizes()), counts = visible.expand(argument.sizes());
  const std::int64_t heads = argument.size(1), rows = argument.size(2), keys = argument.size(3);
  AT_DISPATCH_FLOATING_TYPES(argument.scalar_type(), "cogwheel::row_map", [&] {
    const RowMapValues<scalar_t>& map = row_map_values<scalar_t>(mechanism);
    if (map.variables != 1 + parameters.size(1))
      refuse("parameters", "[H, " + std::to_string(map.variables - 1) + "]", shape_text(parameters));
    const scalar_t* from = argument.const_data_ptr<scalar_t>();
    const auto* shift_data = shifts.const_data_ptr<scalar_t>();
    const auto* count_data = counts.const_data_ptr<scalar_t>();
    auto* to = values.mutable_data_ptr<scalar_t>();
    TorchExecutor().run(argument.size(0) * heads * rows, [&](std::int64_t index, int) {
      const std::int64_t batch = index / (heads * rows), head = index / rows % heads, row = index % rows;
      const auto place = [&](const at::Tensor& tensor) {
        return batch * tensor.stride(0) + head * tensor.stride(1) + row * tensor.stride(2);
      };
      map.evaluate({.function = function_of(function),
                    .order = static_cast<int>(order),
                    .count = keys,
                    .argument = from + index * keys,
                    .shift = shift_data + place(shifts),
                    .visible = count_data + place(counts),
                    .shift_stride = shifts.stride(3),
                    .visible_stride = counts.stride(3),
                    .theta = parameters.const_data_ptr<double>() + head * parameters.size(1),
                    .out = to + index * keys,
                    .channel_stride = argument.numel()});
    });
  });
  return values;
}

// Each step of the map's trace by an operator of ATen, on the argument's device; a map whose trace is too long runs on
// the host.
at::Tensor values_composed(const at::Tensor& argument, const at::Tensor& shift, const at::Tensor& visible,
                           const at::Tensor& parameters, c10::string_view mechanism, c10::string_view function,
                           std::int64_t order) {
  if (argument.dim() != 4) refuse("argument", "[B, H, N, M]", shape_text(argument));
  if (parameters.dim() != 2 || parameters.size(0) != argument.size(1))
    refuse("parameters", "[H, P]", shape_text(parameters));
  const at::Tensor values = empty_values(argument, parameters, function, order);
  const authoring::Trace* const trace =
      authoring::row_map_trace(mechanism, function_of(function), static_cast<int>(order));
  if (trace == nullptr)
    return values_cpu(argument.cpu(), shift.cpu(), visible.cpu(), parameters.cpu(), mechanism, function, order)
        .to(argument.device());
  if (row_map_values<double>(mechanism).variables != 1 + parameters.size(1))
    refuse("parameters", "[H, " + std::to_string(row_map_values<double>(mechanism).variables - 1) + "]",
           shape_text(parameters));
  if (values.numel() == 0) return values;
  write_traced(*trace, argument, shift, visible, parameters, values.flatten(0, order));
  return values;
}

at::Tensor values_meta(const at::Tensor& argument, const at::Tensor&, const at::Tensor&, const at::Tensor& parameters,
                       c10::string_view, c10::string_view function, std::int64_t order) {
  return empty_values(argument, parameters, function, order);
}

// One call, as its derivatives need it.
struct RowMapCall {
  std::string mechanism, function;
  std::int64_t order;

  bool moves_with_shift() const { return function == terms && find_mechanism(mechanism).pairwise()->has_energy; }

  // The function of these inputs, differentiated `more` more times.
  at::Tensor of(const variable_list& inputs, std::int64_t more) const {
    return row_map(inputs[0], inputs[1], inputs[2], inputs[3], mechanism, function, order + more);
  }

  // The derivative of every value along one variable.
  static at::Tensor along(const at::Tensor& derivatives, std::int64_t order, std::int64_t variable) {
    return derivatives.select(1 + order, variable);
  }
};

at::Tensor per_head(const at::Tensor& parameters, std::int64_t index, const at::Tensor& like) {
  return parameters.select(1, index).to(like.scalar_type()).unsqueeze(-1).unsqueeze(-1);  // [H, 1, 1]
}

variable_list backward_of(const RowMapCall& call, const variable_list& inputs, const at::Tensor& gradient) {
  const at::Tensor &argument = inputs[0], &shift = inputs[1], &parameters = inputs[3];
  std::vector<std::int64_t> channels;
  for (std::int64_t i = 0; i <= call.order; ++i) channels.push_back(i);
  variable_list result(4);
  if (argument.requires_grad() || parameters.requires_grad()) {
    const at::Tensor derivatives = call.of(inputs, 1);
    const auto gradient_along = [&](std::int64_t variable) {
      return (gradient * RowMapCall::along(derivatives, call.order, variable)).sum(channels);
    };
    result[0] = gradient_along(0);
    if (parameters.requires_grad()) {
      variable_list columns;
      for (std::int64_t p = 0; p < parameters.size(1); ++p)
        // Row by row first: a sum of so many numbers into one would be split by threads.
        columns.push_back(gradient_along(1 + p).sum(3).sum(at::IntArrayRef{0, 2}).to(parameters.scalar_type()));
      result[3] = columns.empty() ? at::zeros_like(parameters) : at::stack(columns, 1);
    }
  }
  if (shift.requires_grad() && call.moves_with_shift())
    result[1] = -(gradient * call.of(inputs, 0)).sum(channels).sum_to_size(shift.sizes());
  return result;
}

at::Tensor tangent_of(const RowMapCall& call, const variable_list& inputs) {
  const auto tangent = [&](std::size_t i) { return inputs[i]._fw_grad(0); };
  variable_list primals;
  for (const at::Tensor& input : inputs) primals.push_back(input._fw_primal(0));
  at::Tensor sum;
  const auto add = [&](const at::Tensor& part) { sum = sum.defined() ? sum + part : part; };
  if (tangent(0).defined() || tangent(3).defined()) {
    const at::Tensor derivatives = call.of(primals, 1);
    if (tangent(0).defined()) add(RowMapCall::along(derivatives, call.order, 0) * tangent(0));
    if (tangent(3).defined())
      for (std::int64_t p = 0; p < primals[3].size(1); ++p)
        add(RowMapCall::along(derivatives, call.order, 1 + p) * per_head(tangent(3), p, primals[0]));
  }
  if (tangent(1).defined() && call.moves_with_shift()) add(-(call.of(primals, 0) * tangent(1)));
  return sum.defined() ? sum : at::zeros_like(call.of(primals, 0));
}

at::Tensor values_autograd(const at::Tensor& argument, const at::Tensor& shift, const at::Tensor& visible,
                           const at::Tensor& parameters, c10::string_view mechanism, c10::string_view function,
                           std::int64_t order) {
  const RowMapCall call{std::string(mechanism), std::string(function), order};
  const variable_list inputs{argument, shift, visible, parameters};
  at::Tensor values;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    values = row_map(argument, shift, visible, parameters, mechanism, function, order);
  }
  // Saved tensors keep their tangents, so that those of backward are right.
  if (needs_record(inputs))
    record("RowMapBackward", inputs, {values}, {},
           [call](const variable_list& saved, const variable_list&, const variable_list& gradients) {
             return backward_of(call, saved, gradients[0]);
           });
  if (has_tangent(inputs)) values._set_fw_grad(tangent_of(call, inputs), 0, false);
  return values;
}

}  // namespace

at::Tensor row_map(const at::Tensor& argument, const at::Tensor& shift, const at::Tensor& visible,
                   const at::Tensor& parameters, std::string_view mechanism, std::string_view function,
                   std::int64_t order) {
  static const auto handle = find_operator<decltype(values_cpu)>("cogwheel::row_map");
  return handle.call(argument, shift, visible, parameters, mechanism, function, order);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "row_map(Tensor argument, Tensor shift, Tensor visible, Tensor parameters, str mechanism, str function, int "
      "order) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { implement_fused(library, "row_map", values_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("row_map", values_composed); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("row_map", values_meta); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("row_map", values_autograd); }

}  // namespace cogwheel::ops
