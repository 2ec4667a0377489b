#include "cogwheel/ops/layers/gated_sequence.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/attention/kernels/gated_sequence/gated_sequence.h"
#include "cogwheel/ops/layers/gated_cell.h"
#include "cogwheel/ops/layers/matrix_product.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

using GatedGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// What an operator of a sequence takes, but for the gradients.
struct GatedCall {
  at::Tensor x, weight;
  OptionalTensor bias, hidden, memory, lengths;
  GatedCell cell;
  bool reverse;

  c10::SymInt tokens() const { return x.sym_size(0); }
  c10::SymInt batch() const { return x.sym_size(1); }
  c10::SymInt width() const { return weight.sym_size(1); }
};

[[noreturn]] void refuse_sequence(const char* what, const std::string& expected, const std::string& got) {
  refuse_argument(std::string("gated_sequence: ") + what, expected, got);
}

GatedCall checked_call(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& hidden, const OptionalTensor& memory, const OptionalTensor& lengths,
                       std::string_view cell, bool reverse) {
  GatedCall call{x, weight, bias, hidden, memory, lengths, gated_cell_of("gated_sequence", cell), reverse};
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)
    refuse_sequence("x dtype", "float32 or float64", c10::toString(x.scalar_type()));
  const c10::SymInt gates = gates_of(call.cell);
  if (weight.dim() != 2 || weight.sym_size(0) != weight.sym_size(1) * gates || weight.sym_size(1) == 0)
    refuse_sequence("weight", "[" + size_text(gates) + " · H, H]", shape_text(weight));
  if (x.dim() != 3 || x.sym_size(2) != weight.sym_size(0))
    refuse_sequence("x", "[N, B, " + size_text(weight.sym_size(0)) + "]", shape_text(x));
  check_beside_x("gated_sequence: weight", weight, x, {weight.sym_size(0), weight.sym_size(1)});
  if (bias) check_beside_x("gated_sequence: bias", *bias, x, {weight.sym_size(0)});
  if (hidden) check_beside_x("gated_sequence: hidden", *hidden, x, {call.batch(), call.width()});
  if (memory && call.cell == GatedCell::gru) refuse_sequence("memory", "none, of a gru", shape_text(*memory));
  if (memory) check_beside_x("gated_sequence: memory", *memory, x, {call.batch(), call.width()});
  if (lengths) {
    check_device_of_x("gated_sequence: lengths", *lengths, x);
    if (lengths->scalar_type() != at::kLong)
      refuse_sequence("lengths dtype", "int64", c10::toString(lengths->scalar_type()));
    if (lengths->dim() != 1 || lengths->sym_size(0) != call.batch())
      refuse_sequence("lengths", "[" + size_text(call.batch()) + "]", shape_text(*lengths));
  }
  return call;
}

GatedOutputs empty_outputs(const GatedCall& call, bool saves) {
  const at::TensorOptions options = call.x.options();
  const c10::SymInt tokens = call.tokens(), batch = call.batch(), width = call.width();
  const bool has_memory = call.cell == GatedCell::lstm;
  const auto make = [&](bool wanted, std::initializer_list<c10::SymInt> sizes) {
    return wanted ? at::empty_symint(std::vector<c10::SymInt>(sizes), options) : at::empty({0}, options);
  };
  return {make(true, {tokens, batch, width}), make(true, {batch, width}), make(has_memory, {batch, width}),
          make(saves, {tokens, batch, width * saved_per_unit}), make(saves && has_memory, {tokens, batch, width})};
}

GatedGradients empty_gated_gradients(const GatedCall& call) {
  const at::TensorOptions options = call.x.options();
  const at::Tensor of_state = at::empty_symint({call.batch(), call.width()}, options);
  return {at::empty_symint(call.x.sym_sizes(), options), at::empty_symint(call.weight.sym_sizes(), options),
          at::empty_symint({call.weight.sym_size(0)}, options), of_state,
          call.cell == GatedCell::lstm ? at::empty_like(of_state) : at::empty({0}, options)};
}

// The same with contiguous tensors, and the parts of the engine's problem that both directions have.
GatedCall contiguous(GatedCall call) {
  call.x = call.x.contiguous();
  call.weight = call.weight.contiguous();
  for (OptionalTensor* each : {&call.bias, &call.hidden, &call.memory, &call.lengths})
    if (*each) *each = (*each)->contiguous();
  if (call.lengths)
    for (std::int64_t b = 0; b < call.lengths->numel(); ++b)
      if (const std::int64_t length = call.lengths->const_data_ptr<std::int64_t>()[b];
          length < 0 || length > call.x.size(0))
        refuse_sequence("lengths", "0 to " + std::to_string(call.x.size(0)), std::to_string(length));
  return call;
}

template <class T>
void describe(const GatedCall& call, GatedProblem<T>& problem) {
  problem.cell = call.cell;
  problem.tokens = call.x.size(0);
  problem.batch = call.x.size(1);
  problem.width = call.weight.size(1);
  problem.reverse = call.reverse;
  problem.lengths = numbers_of<std::int64_t>(call.lengths);
  problem.weight = call.weight.const_data_ptr<T>();
  problem.hidden = numbers_of<T>(call.hidden);
  problem.memory = numbers_of<T>(call.memory);
}

GatedOutputs gated_sequence_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                const OptionalTensor& hidden, const OptionalTensor& memory,
                                const OptionalTensor& lengths, std::string_view cell, bool reverse, bool saves) {
  const GatedCall call = contiguous(checked_call(x, weight, bias, hidden, memory, lengths, cell, reverse));
  const GatedOutputs outputs = empty_outputs(call, saves);
  const auto& [output, last_hidden, last_memory, gates, memories] = outputs;
  AT_DISPATCH_FLOATING_TYPES(call.x.scalar_type(), "cogwheel::gated_sequence", [&] {
    GatedForward<scalar_t> problem;
    describe(call, problem);
    problem.x = call.x.const_data_ptr<scalar_t>();
    problem.bias = numbers_of<scalar_t>(call.bias);
    problem.output = output.mutable_data_ptr<scalar_t>();
    problem.last_hidden = last_hidden.mutable_data_ptr<scalar_t>();
    problem.last_memory = memory_of<scalar_t>(last_memory);
    problem.gates = memory_of<scalar_t>(gates);
    problem.memories = memory_of<scalar_t>(memories);
    gated_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return outputs;
}

GatedOutputs gated_sequence_meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                 const OptionalTensor& hidden, const OptionalTensor& memory,
                                 const OptionalTensor& lengths, std::string_view cell, bool reverse, bool saves) {
  return empty_outputs(checked_call(x, weight, bias, hidden, memory, lengths, cell, reverse), saves);
}

// The same in ATen's operators, for derivatives that the kernel lacks and for devices without one.
GatedOutputs composed_sequence(const GatedCall& call) {
  const at::Tensor none = at::zeros_symint({call.batch(), call.width()}, call.x.options());
  const bool has_memory = call.cell == GatedCell::lstm;
  StateOfCell state{call.hidden.value_or(none), call.memory.value_or(none)};
  const std::int64_t tokens = call.x.size(0);
  std::vector<at::Tensor> outputs(static_cast<std::size_t>(tokens));
  for (std::int64_t step = 0; step < tokens; ++step) {
    const std::int64_t token = call.reverse ? tokens - 1 - step : step;
    StateOfCell next = composed_cell(call.cell, call.x.select(0, token),
                                     ops::matrix_product(state.hidden, call.weight, call.bias), state);
    at::Tensor output = next.hidden;
    if (call.lengths) {
      const at::Tensor present = call.lengths->gt(token).unsqueeze(1);
      output = at::where(present, next.hidden, none);
      next.hidden = at::where(present, next.hidden, state.hidden);
      if (has_memory) next.memory = at::where(present, next.memory, state.memory);
    }
    outputs[static_cast<std::size_t>(token)] = output;
    state = next;
  }
  const at::Tensor nothing = at::empty({0}, call.x.options());
  return {tokens == 0 ? none.unsqueeze(0).narrow(0, 0, 0) : at::stack(outputs), state.hidden.clone(),
          has_memory ? state.memory.clone() : nothing, nothing.clone(), nothing.clone()};
}

GatedOutputs gated_sequence_composed(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                     const OptionalTensor& hidden, const OptionalTensor& memory,
                                     const OptionalTensor& lengths, std::string_view cell, bool reverse, bool) {
  return composed_sequence(checked_call(x, weight, bias, hidden, memory, lengths, cell, reverse));
}

// Σ_t d_tᵀ h_{t−1} over all tokens, by one product, and one more for the state before the first token.
at::Tensor weight_gradient(const GatedCall& call, const at::Tensor& of_products, const at::Tensor& output) {
  const std::int64_t tokens = output.size(0), rows = (tokens - 1) * output.size(1);
  at::Tensor sum;
  const auto add = [&](const at::Tensor& left, const at::Tensor& right) {
    const at::Tensor product = ops::matrix_product(left.t(), right.t(), {});
    sum = sum.defined() ? sum + product : product;
  };
  if (rows > 0)
    add(of_products.narrow(0, call.reverse ? 0 : 1, tokens - 1).view({rows, -1}),
        output.narrow(0, call.reverse ? 1 : 0, tokens - 1).view({rows, -1}));
  if (call.hidden && tokens > 0) {
    at::Tensor first = of_products.select(0, call.reverse ? tokens - 1 : 0);
    if (call.reverse && call.lengths)
      first = of_products
                  .gather(0, (*call.lengths - 1)
                                 .clamp_min(0)
                                 .view({1, -1, 1})
                                 .expand({1, of_products.size(1), of_products.size(2)}))
                  .select(0, 0);
    add(first, *call.hidden);
  }
  return sum.defined() ? sum : at::zeros(call.weight.sizes(), call.x.options());
}

void check_saved(const GatedCall& call, const at::Tensor& output, const at::Tensor& gates, const at::Tensor& memories) {
  const c10::SymInt tokens = call.tokens(), batch = call.batch(), width = call.width();
  check_beside_x("gated_sequence: output", output, call.x, {tokens, batch, width});
  check_beside_x("gated_sequence: gates", gates, call.x, {tokens, batch, width * saved_per_unit});
  if (call.cell == GatedCell::lstm)
    check_beside_x("gated_sequence: memories", memories, call.x, {tokens, batch, width});
}

GatedGradients gated_sequence_backward_cpu(const at::Tensor& output_gradient, const OptionalTensor& hidden_gradient,
                                           const OptionalTensor& memory_gradient, const at::Tensor& x,
                                           const at::Tensor& weight, const OptionalTensor& bias,
                                           const OptionalTensor& hidden, const OptionalTensor& memory,
                                           const OptionalTensor& lengths, const at::Tensor& output,
                                           const at::Tensor& gates, const at::Tensor& memories, std::string_view cell,
                                           bool reverse) {
  const GatedCall call = contiguous(checked_call(x, weight, bias, hidden, memory, lengths, cell, reverse));
  check_saved(call, output, gates, memories);
  check_beside_x("gated_sequence: gradient", output_gradient, call.x, output.sym_sizes());
  GatedGradients gradients = empty_gated_gradients(call);
  auto& [of_x, of_weight, of_bias, of_hidden, of_memory] = gradients;
  const at::Tensor of_products = call.cell == GatedCell::lstm ? of_x : at::empty_like(of_x);
  const at::Tensor given = output_gradient.contiguous(), made = output.contiguous(), saved = gates.contiguous(),
                   kept = memories.contiguous();
  const OptionalTensor of_last = hidden_gradient ? OptionalTensor(hidden_gradient->contiguous()) : std::nullopt,
                       of_last_memory = memory_gradient ? OptionalTensor(memory_gradient->contiguous()) : std::nullopt;
  AT_DISPATCH_FLOATING_TYPES(call.x.scalar_type(), "cogwheel::gated_sequence_backward", [&] {
    GatedBackward<scalar_t> problem;
    describe(call, problem);
    problem.output = made.const_data_ptr<scalar_t>();
    problem.gates = saved.const_data_ptr<scalar_t>();
    problem.memories = memory_of<scalar_t>(kept);
    problem.output_gradient = given.const_data_ptr<scalar_t>();
    problem.hidden_gradient = numbers_of<scalar_t>(of_last);
    problem.memory_gradient = numbers_of<scalar_t>(of_last_memory);
    problem.x_gradient = of_x.mutable_data_ptr<scalar_t>();
    problem.product_gradient = call.cell == GatedCell::lstm ? nullptr : of_products.mutable_data_ptr<scalar_t>();
    problem.initial_hidden_gradient = of_hidden.mutable_data_ptr<scalar_t>();
    problem.initial_memory_gradient = memory_of<scalar_t>(of_memory);
    gated_kernel<scalar_t>().backward(problem, TorchExecutor());
  });
  of_weight = weight_gradient(call, of_products, made);
  of_bias = of_products.sum(at::IntArrayRef{0, 1});
  return gradients;
}

GatedGradients gated_sequence_backward_meta(const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                                            const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                            const OptionalTensor& hidden, const OptionalTensor& memory,
                                            const OptionalTensor& lengths, const at::Tensor& output,
                                            const at::Tensor& gates, const at::Tensor& memories, std::string_view cell,
                                            bool reverse) {
  const GatedCall call = checked_call(x, weight, bias, hidden, memory, lengths, cell, reverse);
  check_saved(call, output, gates, memories);
  return empty_gated_gradients(call);
}

GatedGradients call_backward(const at::Tensor& output_gradient, const OptionalTensor& hidden_gradient,
                             const OptionalTensor& memory_gradient, const at::Tensor& x, const at::Tensor& weight,
                             const OptionalTensor& bias, const OptionalTensor& hidden, const OptionalTensor& memory,
                             const OptionalTensor& lengths, const at::Tensor& output, const at::Tensor& gates,
                             const at::Tensor& memories, std::string_view cell, bool reverse) {
  static const auto handle = find_operator<decltype(call_backward)>("cogwheel::gated_sequence_backward");
  return handle.call(output_gradient, hidden_gradient, memory_gradient, x, weight, bias, hidden, memory, lengths,
                     output, gates, memories, cell, reverse);
}

GatedCall call_with(const variable_list& inputs, const at::Tensor& lengths, GatedCell cell, bool reverse) {
  return {inputs[0], inputs[1], or_none(inputs[2]), or_none(inputs[3]), or_none(inputs[4]), or_none(lengths),
          cell,      reverse};
}

// Of a node that kept these inputs, and as constants the lengths, the output and what backward reads.
variable_list node_backward(const std::string& cell, bool reverse, const variable_list& inputs,
                            const variable_list& kept, const variable_list& gradients) {
  if (at::GradMode::is_enabled())
    return gradients_through(
        [&](const variable_list& given) {
          const auto [output, hidden, memory, gates, memories] =
              composed_sequence(call_with(given, kept[1], gated_cell_of("gated_sequence", cell), reverse));
          return variable_list{output, hidden, memory};
        },
        inputs, gradients);
  const at::Tensor of_output = gradients[0].defined() ? gradients[0] : at::zeros_like(kept[0]);
  const auto of_memory = cell == "lstm" ? or_none(gradients[2]) : std::nullopt;
  const auto [of_x, of_weight, of_bias, of_hidden, of_first_memory] =
      call_backward(of_output, or_none(gradients[1]), of_memory, inputs[0], inputs[1], or_none(inputs[2]),
                    or_none(inputs[3]), or_none(inputs[4]), or_none(kept[1]), kept[0], kept[2], kept[3], cell, reverse);
  variable_list result{of_x, of_weight, of_bias, of_hidden, of_first_memory};
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!inputs[i].defined()) result[i] = at::Tensor();
  return result;
}

GatedOutputs gated_sequence_autograd(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                     const OptionalTensor& hidden, const OptionalTensor& memory,
                                     const OptionalTensor& lengths, std::string_view cell, bool reverse, bool saves) {
  const variable_list inputs{x, weight, or_undefined(bias), or_undefined(hidden), or_undefined(memory)};
  const bool records = needs_record(inputs);
  if (has_tangent(inputs) || (records && !x.is_cpu() && !x.is_meta()))
    return gated_sequence_composed(x, weight, bias, hidden, memory, lengths, cell, reverse, saves);
  GatedOutputs outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = ops::gated_sequence(x, weight, bias, hidden, memory, lengths, cell, reverse, saves || records);
  }
  if (!records) return outputs;
  const auto& [output, last_hidden, last_memory, gates, memories] = outputs;
  record_saving("GatedSequenceBackward", inputs, {output, last_hidden, last_memory},
                {.inputs = inputs, .outputs = {output}, .constants = {or_undefined(lengths), gates, memories}},
                [cell = std::string(cell), reverse](const variable_list& given, const variable_list& kept,
                                                    const variable_list& gradients) {
                  return node_backward(cell, reverse, given, kept, gradients);
                });
  return outputs;
}

// The node above composes second derivatives, so that only a direct call could ask for these.
GatedGradients gated_sequence_backward_autograd(
    const at::Tensor& output_gradient, const OptionalTensor& hidden_gradient, const OptionalTensor& memory_gradient,
    const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, const OptionalTensor& hidden,
    const OptionalTensor& memory, const OptionalTensor& lengths, const at::Tensor& output, const at::Tensor& gates,
    const at::Tensor& memories, std::string_view cell, bool reverse) {
  const variable_list inputs{
      output_gradient,    or_undefined(hidden_gradient), or_undefined(memory_gradient), x, weight,
      or_undefined(bias), or_undefined(hidden),          or_undefined(memory)};
  if (needs_record(inputs) || has_tangent(inputs))
    refuse_sequence("derivatives", "those of gated_sequence", "those of gated_sequence_backward");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(output_gradient, hidden_gradient, memory_gradient, x, weight, bias, hidden, memory, lengths,
                       output, gates, memories, cell, reverse);
}

}  // namespace

GatedOutputs gated_sequence(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& hidden, const OptionalTensor& memory, const OptionalTensor& lengths,
                            std::string_view cell, bool reverse, bool saves) {
  static const auto handle = find_operator<decltype(ops::gated_sequence)>("cogwheel::gated_sequence");
  return handle.call(x, weight, bias, hidden, memory, lengths, cell, reverse, saves);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "gated_sequence(Tensor x, Tensor weight, Tensor? bias, Tensor? hidden, Tensor? memory, Tensor? lengths, str "
      "cell, bool reverse=False, bool saves=False) -> (Tensor output, Tensor last_hidden, Tensor last_memory, Tensor "
      "gates, Tensor memories)");
  library.def(
      "gated_sequence_backward(Tensor output_gradient, Tensor? hidden_gradient, Tensor? memory_gradient, Tensor x, "
      "Tensor weight, Tensor? bias, Tensor? hidden, Tensor? memory, Tensor? lengths, Tensor output, Tensor gates, "
      "Tensor memories, str cell, bool reverse=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("gated_sequence", gated_sequence_cpu);
  library.impl("gated_sequence_backward", gated_sequence_backward_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("gated_sequence", gated_sequence_meta);
  library.impl("gated_sequence_backward", gated_sequence_backward_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("gated_sequence", gated_sequence_composed);
  implement_on_host(library, "gated_sequence_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("gated_sequence", gated_sequence_autograd);
  library.impl("gated_sequence_backward", gated_sequence_backward_autograd);
}

}  // namespace cogwheel::ops
