#include "cogwheel/ops/layers/gated_cell.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

using CellOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // hidden, memory, gates
using CellGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

GatedCell checked_cell(const at::Tensor& x, const at::Tensor& products, const OptionalTensor& hidden,
                       const OptionalTensor& memory, std::string_view name) {
  const GatedCell cell = gated_cell_of("gated_cell", name);
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)
    refuse_argument("gated_cell: x dtype", "float32 or float64", c10::toString(x.scalar_type()));
  const c10::SymInt gates = gates_of(cell);
  if (x.dim() != 2 || x.sym_size(1) % gates != 0 || x.sym_size(1) == 0)
    refuse_argument("gated_cell: x", "[B, " + size_text(gates) + " · H]", shape_text(x));
  check_beside_x("gated_cell: products", products, x, {x.sym_size(0), x.sym_size(1)});
  const c10::SymInt width = x.sym_size(1) / gates;
  if (hidden) check_beside_x("gated_cell: hidden", *hidden, x, {x.sym_size(0), width});
  if (memory && cell == GatedCell::gru) refuse_argument("gated_cell: memory", "none, of a gru", shape_text(*memory));
  if (memory) check_beside_x("gated_cell: memory", *memory, x, {x.sym_size(0), width});
  return cell;
}

at::Tensor empty_state(const at::Tensor& x, GatedCell cell, std::int64_t numbers = 1) {
  return at::empty_symint({x.sym_size(0), x.sym_size(1) / gates_of(cell) * numbers}, x.options());
}
at::Tensor empty_memory(const at::Tensor& x, GatedCell cell) {
  return cell == GatedCell::lstm ? empty_state(x, cell) : at::empty({0}, x.options());
}

CellOutputs cell_meta(const at::Tensor& x, const at::Tensor& products, const OptionalTensor& hidden,
                      const OptionalTensor& memory, std::string_view name) {
  const GatedCell cell = checked_cell(x, products, hidden, memory, name);
  return {empty_state(x, cell), empty_memory(x, cell), empty_state(x, cell, saved_per_unit)};
}

OptionalTensor made_contiguous(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(tensor->contiguous()) : std::nullopt;
}

CellOutputs cell_cpu(const at::Tensor& given_x, const at::Tensor& given_products, const OptionalTensor& given_hidden,
                     const OptionalTensor& given_memory, std::string_view name) {
  const GatedCell cell = checked_cell(given_x, given_products, given_hidden, given_memory, name);
  const CellOutputs outputs = cell_meta(given_x, given_products, given_hidden, given_memory, name);
  const auto& [output, kept, gates] = outputs;
  const at::Tensor x = given_x.contiguous(), products = given_products.contiguous();
  const OptionalTensor hidden = made_contiguous(given_hidden), memory = made_contiguous(given_memory);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "cogwheel::gated_cell", [&] {
    GatedForward<scalar_t> problem;
    problem.cell = cell;
    problem.tokens = 1;
    problem.batch = x.size(0);
    problem.width = output.size(1);
    problem.hidden = numbers_of<scalar_t>(hidden);
    problem.memory = numbers_of<scalar_t>(memory);
    problem.x = x.const_data_ptr<scalar_t>();
    problem.products = products.const_data_ptr<scalar_t>();
    problem.output = output.mutable_data_ptr<scalar_t>();
    problem.gates = gates.mutable_data_ptr<scalar_t>();
    problem.memories = memory_of<scalar_t>(kept);
    gated_kernel<scalar_t>().forward(problem, TorchExecutor());
  });
  return outputs;
}

CellOutputs cell_composed(const at::Tensor& x, const at::Tensor& products, const OptionalTensor& hidden,
                          const OptionalTensor& memory, std::string_view name) {
  const GatedCell cell = checked_cell(x, products, hidden, memory, name);
  const at::Tensor none = at::zeros_symint({x.sym_size(0), x.sym_size(1) / gates_of(cell)}, x.options());
  const StateOfCell next = composed_cell(cell, x, products, {hidden.value_or(none), memory.value_or(none)});
  return {next.hidden, next.memory.defined() ? next.memory : at::empty({0}, x.options()), at::empty({0}, x.options())};
}

// The gradients of x; of the products, empty of an LSTM, where they are those of x; of hidden beside the products,
// empty of an LSTM, which has none; and of memory, empty of a GRU.
CellGradients empty_cell_gradients(const at::Tensor& gates, GatedCell cell) {
  const c10::SymInt batch = gates.sym_size(0), width = gates.sym_size(1) / saved_per_unit;
  const auto make = [&](bool wanted, const c10::SymInt& columns) {
    return wanted ? at::empty_symint({batch, columns}, gates.options()) : at::empty({0}, gates.options());
  };
  const bool is_gru = cell == GatedCell::gru;
  return {make(true, width * gates_of(cell)), make(is_gru, width * gates_of(cell)), make(is_gru, width),
          make(!is_gru, width)};
}

CellGradients cell_back_meta(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                             const at::Tensor& gates, const at::Tensor&, std::string_view name) {
  return empty_cell_gradients(gates, gated_cell_of("gated_cell", name));
}

CellGradients cell_back_cpu(const at::Tensor& hidden_gradient, const OptionalTensor& memory_gradient,
                            const OptionalTensor& hidden, const OptionalTensor& memory, const at::Tensor& gates,
                            const at::Tensor& kept, std::string_view name) {
  const GatedCell cell = gated_cell_of("gated_cell", name);
  if (gates.dim() != 2 || gates.sym_size(1) % saved_per_unit != 0)
    refuse_argument("gated_cell: gates", "[B, 4 · H]", shape_text(gates));
  const std::int64_t batch = gates.size(0), width = gates.size(1) / saved_per_unit;
  const auto check = [&](const char* what, const OptionalTensor& tensor) {
    if (tensor) check_beside_x(std::string("gated_cell: ") + what, *tensor, gates, {batch, width});
  };
  check("gradient of hidden", hidden_gradient);
  check("gradient of memory", memory_gradient);
  check("hidden", hidden);
  check("memory", memory);
  if (cell == GatedCell::lstm) check("new memory", kept);
  const CellGradients gradients = empty_cell_gradients(gates, cell);
  const auto& [of_x, of_products, of_hidden, of_memory] = gradients;
  const at::Tensor given = hidden_gradient.contiguous(), saved = gates.contiguous(), now = kept.contiguous();
  const OptionalTensor given_memory = made_contiguous(memory_gradient), hidden_before = made_contiguous(hidden),
                       memory_before = made_contiguous(memory);
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), "cogwheel::gated_cell_backward", [&] {
    GatedBackward<scalar_t> problem;
    problem.cell = cell;
    problem.tokens = 1;
    problem.batch = batch;
    problem.width = width;
    problem.hidden = numbers_of<scalar_t>(hidden_before);
    problem.memory = numbers_of<scalar_t>(memory_before);
    problem.gates = saved.const_data_ptr<scalar_t>();
    problem.memories = memory_of<scalar_t>(now);
    problem.output_gradient = given.const_data_ptr<scalar_t>();
    problem.memory_gradient = numbers_of<scalar_t>(given_memory);
    problem.leaves_product = true;
    problem.x_gradient = of_x.mutable_data_ptr<scalar_t>();
    problem.product_gradient = memory_of<scalar_t>(of_products);
    problem.initial_hidden_gradient = memory_of<scalar_t>(of_hidden);
    problem.initial_memory_gradient = memory_of<scalar_t>(of_memory);
    gated_kernel<scalar_t>().backward(problem, TorchExecutor());
  });
  return gradients;
}

CellGradients call_cell_back(const at::Tensor& hidden_gradient, const OptionalTensor& memory_gradient,
                             const OptionalTensor& hidden, const OptionalTensor& memory, const at::Tensor& gates,
                             const at::Tensor& kept, std::string_view name) {
  static const auto handle = find_operator<decltype(call_cell_back)>("cogwheel::gated_cell_backward");
  return handle.call(hidden_gradient, memory_gradient, hidden, memory, gates, kept, name);
}

// Of a node that kept these inputs, and as the others the new hidden state, the new memory and the gates.
variable_list cell_node(const std::string& name, const variable_list& inputs, const variable_list& kept,
                        const variable_list& gradients) {
  const bool is_lstm = name == "lstm";
  if (at::GradMode::is_enabled())
    return gradients_through(
        [&](const variable_list& given) {
          const auto [hidden, memory, gates] =
              cell_composed(given[0], given[1], or_none(given[2]), or_none(given[3]), name);
          return variable_list{hidden, memory};
        },
        inputs, gradients);
  const at::Tensor of_output = gradients[0].defined() ? gradients[0] : at::zeros_like(kept[0]);
  const auto [of_x, of_products, of_hidden, of_memory] =
      call_cell_back(of_output, is_lstm ? or_none(gradients[1]) : std::nullopt, or_none(inputs[2]), or_none(inputs[3]),
                     kept[2], kept[1], name);
  return {of_x, is_lstm ? of_x : of_products, is_lstm || !inputs[2].defined() ? at::Tensor() : of_hidden,
          inputs[3].defined() ? of_memory : at::Tensor()};
}

CellOutputs cell_autograd(const at::Tensor& x, const at::Tensor& products, const OptionalTensor& hidden,
                          const OptionalTensor& memory, std::string_view name) {
  const variable_list inputs{x, products, or_undefined(hidden), or_undefined(memory)};
  const bool records = needs_record(inputs);
  if (has_tangent(inputs) || (records && !x.is_cpu() && !x.is_meta()))
    return cell_composed(x, products, hidden, memory, name);
  CellOutputs outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = ops::gated_cell(x, products, hidden, memory, name);
  }
  const auto& [next, kept, gates] = outputs;
  if (records)
    record_saving(
        "GatedCellBackward", inputs, {next, kept}, {.inputs = inputs, .outputs = {next, kept}, .constants = {gates}},
        [cell = std::string(name)](const variable_list& given, const variable_list& made,
                                   const variable_list& gradients) { return cell_node(cell, given, made, gradients); });
  return outputs;
}

// The node above composes second derivatives, so that only a direct call could ask for these.
CellGradients cell_back_autograd(const at::Tensor& hidden_gradient, const OptionalTensor& memory_gradient,
                                 const OptionalTensor& hidden, const OptionalTensor& memory, const at::Tensor& gates,
                                 const at::Tensor& kept, std::string_view name) {
  const variable_list inputs{
      hidden_gradient, or_undefined(memory_gradient), or_undefined(hidden), or_undefined(memory), gates, kept};
  if (needs_record(inputs) || has_tangent(inputs))
    refuse_argument("gated_cell: derivatives", "those of gated_cell", "those of gated_cell_backward");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_cell_back(hidden_gradient, memory_gradient, hidden, memory, gates, kept, name);
}

}  // namespace

GatedCell gated_cell_of(const char* operation, std::string_view name) {
  if (name == "lstm") return GatedCell::lstm;
  if (name == "gru") return GatedCell::gru;
  refuse_argument(std::string(operation) + ": cell", "lstm or gru", std::string(name));
}

StateOfCell composed_cell(GatedCell cell, const at::Tensor& x, const at::Tensor& products, const StateOfCell& state) {
  const std::vector<at::Tensor> given = x.chunk(gates_of(cell), 1), added = products.chunk(gates_of(cell), 1);
  const auto opened = [&](std::size_t gate) { return (given[gate] + added[gate]).sigmoid(); };
  if (cell == GatedCell::lstm) {
    const at::Tensor memory = opened(1) * state.memory + opened(0) * (given[2] + added[2]).tanh();
    return {opened(3) * memory.tanh(), memory};
  }
  const at::Tensor keep = opened(1), candidate = (given[2] + opened(0) * added[2]).tanh();
  return {candidate + keep * (state.hidden - candidate), {}};
}

CellOutputs gated_cell(const at::Tensor& x, const at::Tensor& products, const OptionalTensor& hidden,
                       const OptionalTensor& memory, std::string_view cell) {
  static const auto handle = find_operator<decltype(ops::gated_cell)>("cogwheel::gated_cell");
  return handle.call(x, products, hidden, memory, cell);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "gated_cell(Tensor x, Tensor products, Tensor? hidden, Tensor? memory, str cell) -> (Tensor next_hidden, Tensor "
      "next_memory, Tensor gates)");
  library.def(
      "gated_cell_backward(Tensor hidden_gradient, Tensor? memory_gradient, Tensor? hidden, Tensor? memory, Tensor "
      "gates, Tensor next_memory, str cell) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("gated_cell", cell_cpu);
  library.impl("gated_cell_backward", cell_back_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("gated_cell", cell_meta);
  library.impl("gated_cell_backward", cell_back_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("gated_cell", cell_composed);
  implement_on_host(library, "gated_cell_backward");
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("gated_cell", cell_autograd);
  library.impl("gated_cell_backward", cell_back_autograd);
}

}  // namespace cogwheel::ops
