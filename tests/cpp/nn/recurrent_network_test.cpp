// Networks of LSTM and GRU cells: torch.nn's numbers on packed sequences, and the same token by token.
#include "cogwheel/nn/recurrent_network.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <tuple>

#include "cogwheel/nn/weights/matrix_product.h"
#include "support/usage_error_of.h"

namespace cogwheel::nn::recurrent_network_test {
namespace {

constexpr std::int64_t batch = 3, tokens = 6, inputs = 5, width = 7, layers = 2;

at::Tensor draw(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

RecurrentNetwork make_network(RecurrentCell cell, bool bidirectional) {
  RecurrentNetwork network(RecurrentNetworkOptions{
      .cell = cell, .inputs = inputs, .width = width, .layers = layers, .bidirectional = bidirectional});
  network->initialize(WeightInitializer(5), "network");
  network->to(at::kDouble);
  return network;
}

// The module of libtorch with the same weights, by name.
template <class Module, class Options>
Module same_weights(RecurrentNetwork& network, bool bidirectional) {
  Module module(Options(inputs, width).num_layers(layers).bidirectional(bidirectional));
  module->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  const auto ours = network->named_parameters();
  EXPECT_EQ(ours.size(), module->named_parameters().size());
  for (auto& parameter : module->named_parameters()) parameter.value().copy_(ours[parameter.key()]);
  return module;
}

void expect_close(const at::Tensor& a, const at::Tensor& b) { EXPECT_TRUE(at::allclose(a, b, 1e-9, 1e-11)); }

at::Tensor last_hidden(const at::Tensor& state) { return state; }
at::Tensor last_hidden(const std::tuple<at::Tensor, at::Tensor>& states) { return std::get<0>(states); }

template <class Module, class Options>
void expect_torchs_numbers(RecurrentCell cell, bool bidirectional) {
  RecurrentNetwork network = make_network(cell, bidirectional);
  Module module = same_weights<Module, Options>(network, bidirectional);
  const at::Tensor lengths = at::tensor({4, 6, 1}, at::kLong), x = draw({batch, tokens, inputs}, 1);
  const at::Tensor ours_x = x.clone().requires_grad_(), theirs_x = x.clone().requires_grad_();
  ForwardContext context;
  context.lengths = lengths;
  const auto [output, last] = network->forward(ours_x, context);

  const auto packed = torch::nn::utils::rnn::pack_padded_sequence(theirs_x, lengths, true, false);
  const auto [packed_output, states] = module->forward_with_packed_input(packed);
  const at::Tensor expected = std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(packed_output, true));
  expect_close(output, expected);
  expect_close(at::stack(last.hidden), last_hidden(states));
  EXPECT_FALSE(output[2].narrow(0, 1, tokens - 1).any().item<bool>());

  const at::Tensor factors = draw(output.sizes(), 2);
  (output * factors).sum().backward();
  (expected * factors).sum().backward();
  expect_close(ours_x.grad(), theirs_x.grad());
  const auto theirs = module->named_parameters();
  for (const auto& parameter : network->named_parameters())
    expect_close(parameter.value().grad(), theirs[parameter.key()].grad());
}

TEST(RecurrentNetwork, HasTheNamesAndNumbersOfTorch) {
  for (const bool bidirectional : {false, true}) {
    expect_torchs_numbers<torch::nn::LSTM, torch::nn::LSTMOptions>(RecurrentCell::lstm, bidirectional);
    expect_torchs_numbers<torch::nn::GRU, torch::nn::GRUOptions>(RecurrentCell::gru, bidirectional);
  }
}

TEST(RecurrentNetwork, StepsToTheRowsOfTheWholePassWithItsGradients) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    RecurrentNetwork network = make_network(cell, false);
    const at::Tensor x = draw({batch, tokens, inputs}, 1), factors = draw({batch, tokens, width}, 2);
    const auto gradients_of = [&](const at::Tensor& output) {
      network->zero_grad();
      (output * factors).sum().backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : network->parameters()) gradients.push_back(parameter.grad().clone());
      return gradients;
    };
    const at::Tensor whole = network->forward(x).output;
    CellStates state;
    std::vector<at::Tensor> rows;
    const RecurrentSteps steps = network->steps();
    for (std::int64_t token = 0; token < tokens; ++token) rows.push_back(steps(x.select(1, token), state));
    const at::Tensor stepped = at::stack(rows, 1);
    expect_close(stepped, whole);
    const auto found = gradients_of(stepped), expected = gradients_of(whole);
    for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i]);
  }
}

TEST(RecurrentNetwork, StepsCollectGradientsOfTheirOwnPassAlone) {
  RecurrentNetwork network = make_network(RecurrentCell::lstm, false);
  const at::Tensor x = draw({batch, inputs}, 1).requires_grad_();
  const RecurrentSteps steps = network->steps();
  CellStates state;
  const at::Tensor first = steps(x, state), loss = (first * steps(x, state)).sum();
  const auto parameters = network->parameters();
  const auto by_steps = torch::autograd::grad({loss}, parameters, {}, true, false);
  torch::autograd::grad({loss}, {x}, {}, true, false);  // leaves nothing behind for the next
  const auto again = torch::autograd::grad({loss}, parameters, {}, true, false);
  const auto twice = torch::autograd::grad({loss}, parameters, {}, true, true);  // by another way
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(by_steps[i], again[i]));
    expect_close(by_steps[i], twice[i]);
    EXPECT_TRUE(twice[i].requires_grad());
  }
}

TEST(RecurrentNetwork, ContinuesAndForksAKeptState) {
  const torch::NoGradGuard no_grad;
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    RecurrentNetwork network = make_network(cell, false);
    const at::Tensor x = draw({batch, tokens, inputs}, 1), whole = network->forward(x).output;
    const auto state = network->make_state(batch);
    ForwardContext context;
    context.layer_state = state.get();
    expect_close(network->forward(x.narrow(1, 0, 2), context).output, whole.narrow(1, 0, 2));
    const at::Tensor chosen = at::tensor({2, 0, 2, 1}, at::kLong);
    const auto forked = state->fork(chosen);
    context.layer_state = forked.get();
    expect_close(network->forward(x.narrow(1, 2, 4).index_select(0, chosen), context).output,
                 whole.narrow(1, 2, 4).index_select(0, chosen));
    EXPECT_EQ(forked->longest(), tokens);
    EXPECT_EQ(state->longest(), 2);

    CellStates states = network->forward(x.narrow(1, 0, 2)).last.of_entries(chosen);
    expect_close(network->steps()(x.select(1, 2).index_select(0, chosen), states),
                 whole.select(1, 2).index_select(0, chosen));
  }
}

TEST(RecurrentNetwork, DropsOutBetweenLayersAlone) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = draw({batch, tokens, inputs}, 1);
  ForwardContext context;
  context.dropout = Dropout(0.5, 3);
  RecurrentNetwork two = make_network(RecurrentCell::gru, false);
  const at::Tensor plain = two->forward(x).output, dropped = two->forward(x, context).output;
  EXPECT_FALSE(at::allclose(plain, dropped));
  EXPECT_TRUE(dropped.ne(0).all().item<bool>());
  EXPECT_TRUE(at::equal(dropped, two->forward(x, context).output));
  RecurrentNetwork one(RecurrentNetworkOptions{.cell = RecurrentCell::gru, .inputs = inputs, .width = width});
  one->initialize(WeightInitializer(5), "network");
  one->to(at::kDouble);
  EXPECT_TRUE(at::equal(one->forward(x).output, one->forward(x, context).output));
}

TEST(RecurrentNetwork, RoundsTheProductOfTheInputAlone) {
  const torch::NoGradGuard no_grad;
  RecurrentNetwork network = make_network(RecurrentCell::lstm, false);
  network->to(at::kFloat);
  const at::Tensor x = draw({batch, tokens, inputs}, 1).to(at::kFloat), plain = network->forward(x).output;
  const BFloat16Products rounded;
  const at::Tensor output = network->forward(x).output;
  EXPECT_EQ(output.scalar_type(), at::kFloat);
  EXPECT_FALSE(at::equal(output, plain));
  EXPECT_TRUE(at::allclose(output, plain, 0.05, 0.02));
}

TEST(RecurrentNetwork, RefusesAStateInBothDirections) {
  RecurrentNetwork network = make_network(RecurrentCell::gru, true);
  const auto state = network->make_state(batch);
  ForwardContext context;
  context.layer_state = state.get();
  EXPECT_EQ(usage_error_of([&] {
              network->forward(draw({batch, tokens, inputs}, 1), context);
            }),
            "recurrent network: state: expected one direction, got both directions");
  EXPECT_EQ(usage_error_of([&] { network->steps(); }),
            "recurrent network: steps: expected one direction, got both directions");
}

}  // namespace
}  // namespace cogwheel::nn::recurrent_network_test
