// LSTM and GRU networks: stacked, in one direction or both, over padded batches and token by token.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/weights/collected_weight.h"
#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::nn {

enum class RecurrentCell { lstm, gru };

struct RecurrentNetworkOptions {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t inputs = 0, width = 0, layers = 1;
  bool bidirectional = false;
};

// The state of every layer and direction, in the order of torch.nn (layer 0, layer 0 in reverse, layer 1, …), each
// [B, width]. A value: steps that share one may go different ways, and gradients pass through it.
struct CellStates {
  std::vector<at::Tensor> hidden, memory;  // memory: of an LSTM alone; both empty: 0 everywhere

  bool empty() const { return hidden.empty(); }
  // Entries of the batch, [B'] int64, in that order; one may be named several times, as in beam search.
  CellStates of_entries(const at::Tensor& entries) const;
  CellStates detached() const;
};

struct RecurrentNetworkOutput {
  at::Tensor output;  // [B, N, directions · width], 0 at padding; tokens lie first in memory
  CellStates last;    // after the last token of each sequence; in reverse that is its first
};

// The steps of one forward pass, made by RecurrentNetwork::steps().
class RecurrentSteps {
 public:
  // One token, x [B, inputs] → [B, width], with gradients through x and the state, which it replaces. The numbers are
  // those of the network's forward. Dropout is drawn for this call: give each token a part() of its own.
  at::Tensor operator()(const at::Tensor& x, CellStates& state, const Dropout& dropout = {}) const;

 private:
  friend class RecurrentNetworkImpl;
  struct Layer {
    CollectedWeight of_input, of_state;
  };
  RecurrentCell cell_ = RecurrentCell::lstm;
  std::vector<Layer> layers_;
};

// Weights have the names and the layout of torch.nn.LSTM and torch.nn.GRU (weight_ih_l0, bias_hh_l1_reverse), and the
// numbers are theirs; padding is treated as in their packed sequences. Of the two products of a cell only that of the
// input is rounded to bfloat16 where BFloat16Products is in force: that of the state, which meets itself at every
// token, stays as it is, and so do gates and states.
class RecurrentNetworkImpl : public torch::nn::Module {
 public:
  explicit RecurrentNetworkImpl(const RecurrentNetworkOptions& options);

  // x [B, N, inputs]. Of the context: `lengths`; `dropout`, on what one layer passes to the next; and `layer_state`,
  // which takes the place of `first` and is advanced. Without a state, or with an empty one, it begins at 0.
  RecurrentNetworkOutput forward(const at::Tensor& x, const ForwardContext& context = {}, const CellStates& first = {});

  // For a pass that goes token by token, because what a token reads depends on those before it; in one direction only.
  // The weights' gradients of all its steps are one product each.
  RecurrentSteps steps() const;

  // A state that is kept from call to call, for decoding; forward takes it as the context's `layer_state`. Gradients do
  // not pass through it.
  std::unique_ptr<LayerState> make_state(std::int64_t batch) const;

  // Weights of the variance that torch.nn gives them, 1/(3 width); biases 0, but 1 for the forget gate of an LSTM, so
  // that it begins by remembering (Jozefowicz et al. 2015). `name` is the full name of the module.
  void initialize(const WeightInitializer& initializer, const std::string& name);

  const RecurrentNetworkOptions& options() const { return options_; }

 private:
  struct Direction {
    at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;
    std::string suffix;
  };
  std::size_t directions() const { return options_.bidirectional ? 2 : 1; }
  // x [N, B, …] → [N, B, directions · width]; adds the last states to `last`.
  at::Tensor pass_layer(std::size_t layer, const at::Tensor& x, const std::optional<at::Tensor>& lengths,
                        const CellStates& first, CellStates& last);
  // x [N, B, inputs].
  at::Tensor pass_layers(const at::Tensor& x, const std::optional<at::Tensor>& lengths, const Dropout& dropout,
                         const CellStates& first, CellStates& last);

  void check_one_direction(const char* what) const;

  RecurrentNetworkOptions options_;
  std::vector<Direction> parts_;  // by layer, then direction
};
TORCH_MODULE(RecurrentNetwork);

}  // namespace cogwheel::nn
