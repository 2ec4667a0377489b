#include "cogwheel/nn/recurrent_network.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/states/recurrent_state.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/ops/layers/gated_cell.h"
#include "cogwheel/ops/layers/gated_sequence.h"

namespace cogwheel::nn {
namespace {

template <class Function>
CellStates of_each_state(const CellStates& states, const Function& function) {
  CellStates result;
  for (const at::Tensor& each : states.hidden) result.hidden.push_back(function(each));
  for (const at::Tensor& each : states.memory) result.memory.push_back(function(each));
  return result;
}

// What a RecurrentState carries: all hidden states, then all memories.
CellStates unpacked(const std::vector<at::Tensor>& carried, std::size_t cells) {
  CellStates states;
  for (std::size_t i = 0; i < carried.size(); ++i) (i < cells ? states.hidden : states.memory).push_back(carried[i]);
  return states;
}
std::vector<at::Tensor> packed(const CellStates& states) {
  std::vector<at::Tensor> carried = states.hidden;
  carried.insert(carried.end(), states.memory.begin(), states.memory.end());
  return carried;
}

const char* cell_name(RecurrentCell cell) { return cell == RecurrentCell::lstm ? "lstm" : "gru"; }

}  // namespace

CellStates CellStates::of_entries(const at::Tensor& entries) const {
  return of_each_state(*this, [&](const at::Tensor& each) { return each.index_select(0, entries); });
}
CellStates CellStates::detached() const {
  return of_each_state(*this, [](const at::Tensor& each) { return each.detach(); });
}

RecurrentNetworkImpl::RecurrentNetworkImpl(const RecurrentNetworkOptions& options) : options_(options) {
  const std::int64_t width = options.width, rows = (options.cell == RecurrentCell::lstm ? 4 : 3) * width;
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    for (std::size_t direction = 0; direction < directions(); ++direction) {
      const std::int64_t inputs = layer == 0 ? options.inputs : width * static_cast<std::int64_t>(directions());
      Direction part;
      part.suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      part.weight_ih = new_parameter(*this, "weight_ih" + part.suffix, {rows, inputs});
      part.weight_hh = new_parameter(*this, "weight_hh" + part.suffix, {rows, width});
      part.bias_ih = new_parameter(*this, "bias_ih" + part.suffix, {rows});
      part.bias_hh = new_parameter(*this, "bias_hh" + part.suffix, {rows});
      parts_.push_back(part);
    }
}

void RecurrentNetworkImpl::initialize(const WeightInitializer& initializer, const std::string& name) {
  const torch::NoGradGuard no_grad;
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(options_.width));
  for (Direction& part : parts_) {
    initializer.normal(part.weight_ih, name + ".weight_ih" + part.suffix, deviation);
    initializer.normal(part.weight_hh, name + ".weight_hh" + part.suffix, deviation);
    part.bias_ih.zero_();
    part.bias_hh.zero_();
    if (options_.cell == RecurrentCell::lstm) part.bias_ih.narrow(0, options_.width, options_.width).fill_(1);
  }
}

at::Tensor RecurrentNetworkImpl::pass_layer(std::size_t layer, const at::Tensor& x,
                                            const std::optional<at::Tensor>& lengths, const CellStates& first,
                                            CellStates& last) {
  const bool is_lstm = options_.cell == RecurrentCell::lstm;
  std::vector<at::Tensor> outputs;
  for (std::size_t direction = 0; direction < directions(); ++direction) {
    const std::size_t index = layer * directions() + direction;
    const Direction& part = parts_[index];
    const auto of_state = [&](const std::vector<at::Tensor>& states) {
      return states.empty() ? std::nullopt : std::optional(states[index]);
    };
    // All tokens in one product, and in backward their weight gradient.
    const at::Tensor projected = matrix_product(x, part.weight_ih, part.bias_ih).to(part.weight_hh.scalar_type());
    auto [output, hidden, memory, gates, memories] =
        ops::gated_sequence(projected, part.weight_hh, part.bias_hh, of_state(first.hidden), of_state(first.memory),
                            lengths, cell_name(options_.cell), direction == 1, false);
    outputs.push_back(output);
    last.hidden.push_back(hidden);
    if (is_lstm) last.memory.push_back(memory);
  }
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
}

at::Tensor RecurrentNetworkImpl::pass_layers(const at::Tensor& x, const std::optional<at::Tensor>& lengths,
                                             const Dropout& dropout, const CellStates& first, CellStates& last) {
  at::Tensor output = x;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(options_.layers); ++layer)
    output = pass_layer(layer, layer == 0 ? output : dropout.part(layer)(output), lengths, first, last);
  return output;
}

void RecurrentNetworkImpl::check_one_direction(const char* what) const {
  // In reverse, what follows would have to be known.
  if (options_.bidirectional)
    throw UsageError(expected_got(std::string("recurrent network: ") + what, "one direction", "both directions"));
}

RecurrentNetworkOutput RecurrentNetworkImpl::forward(const at::Tensor& x, const ForwardContext& context,
                                                     const CellStates& given) {
  auto* const state = dynamic_cast<RecurrentState*>(context.layer_state);
  if (state) check_one_direction("state");
  if (state && context.lengths)
    throw UsageError(expected_got("recurrent network: lengths", "none beside a state", "lengths"));
  const CellStates first = state ? unpacked(state->carried().law, parts_.size()) : given;
  RecurrentNetworkOutput result;
  if (x.size(1) == 1 && !context.lengths && !options_.bidirectional) {
    result.last = first;
    result.output = steps()(x.select(1, 0), result.last, context.dropout).unsqueeze(1);
  } else {
    result.output = pass_layers(x.transpose(0, 1).contiguous(), context.lengths, context.dropout, first, result.last)
                        .transpose(0, 1);
  }
  if (state) {
    Carried carried;
    carried.law = packed(result.last);
    state->advance(std::move(carried), x.size(1));
  }
  return result;
}

RecurrentSteps RecurrentNetworkImpl::steps() const {
  check_one_direction("steps");
  RecurrentSteps steps;
  steps.cell_ = options_.cell;
  for (const Direction& part : parts_) {
    CollectedWeight of_input(part.weight_ih, part.bias_ih);
    const BFloat16Products exact(false);
    steps.layers_.push_back({std::move(of_input), CollectedWeight(part.weight_hh, part.bias_hh)});
  }
  return steps;
}

at::Tensor RecurrentSteps::operator()(const at::Tensor& x, CellStates& state, const Dropout& dropout) const {
  const bool is_lstm = cell_ == RecurrentCell::lstm;
  CellStates next;
  at::Tensor output = x;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto& [of_input, of_state] = layers_[layer];
    const at::Tensor input = layer == 0 ? output : dropout.part(layer)(output);
    const at::Tensor hidden = state.empty()
                                  ? at::zeros({x.size(0), of_state.inputs()}, x.options().dtype(of_state.type()))
                                  : state.hidden[layer];
    const ops::OptionalTensor memory =
        state.memory.empty() ? ops::OptionalTensor() : ops::OptionalTensor(state.memory[layer]);
    const at::Tensor products = of_state.product(hidden);
    const auto [made, kept, gates] =
        ops::gated_cell(of_input.product(input).to(products.scalar_type()), products, hidden, memory, cell_name(cell_));
    next.hidden.push_back(made);
    if (is_lstm) next.memory.push_back(kept);
    output = made;
  }
  state = std::move(next);
  return output;
}

std::unique_ptr<LayerState> RecurrentNetworkImpl::make_state(std::int64_t batch) const {
  return std::make_unique<RecurrentState>(batch);
}

}  // namespace cogwheel::nn
