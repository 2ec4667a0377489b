// Handwriting: predicts a pen's next point from those before it and, through a window, from the text that it writes.
//
//   h¹_t = LSTM([x_t; w_{t−1}]),   α, β, κ̂ = exp(W h¹_t + b),   κ_t = κ_{t−1} + κ̂,   (w_t, φ_t) = window over the text
//   h^n_t = LSTM([x_t; w_t; h^{n−1}_t]),   y_t = W_y [h¹_t; …; h^N_t] + b_y   (tasks/handwriting/mixture_density.h)
//
//   Graves, "Generating Sequences With Recurrent Neural Networks" (2013), sections 4 and 5. Without a window, or where
//   strokes have no text, w is left out. No peepholes: cells are those of nn/recurrent_network.h.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cogwheel/nn/recurrent_network.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/tasks/handwriting/handwriting_options.h"

namespace cogwheel::tasks::handwriting {

// The texts of a batch, as the window reads them.
struct WrittenText {
  at::Tensor characters = {};  // [B, U, V], a 1 for the character; undefined without a window
  at::Tensor lengths = {};     // [B] int64
};

// How far the pen has come.
struct PenState {
  std::vector<nn::CellStates> layers;
  at::Tensor kappa = {}, window = {};  // [B, K], [B, V]; undefined without a window
};

class HandwritingImpl : public torch::nn::Module {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit HandwritingImpl(const HandwritingOptions& options);
  void initialize(std::uint64_t seed);

  // characters [B, U] int64, lengths [B] int64; ignored without a window.
  WrittenText text(const at::Tensor& characters, const at::Tensor& lengths) const;
  PenState first_state(std::int64_t batch) const;

  struct Predicted {
    at::Tensor y;       // [B, N, 1 + 6 M]
    at::Tensor window;  // φ [B, N, U + 1]; undefined without a window
  };
  // points [B, N, 3], normalised: what comes after each. The state goes on.
  Predicted forward(const at::Tensor& points, const WrittenText& text, PenState& state,
                    const nn::Dropout& dropout = {});

  // The mean of −log p in nats over the points after the first of each sequence: points [B, N, 3], lengths [B] int64.
  at::Tensor loss(const at::Tensor& points, const at::Tensor& lengths, const WrittenText& text,
                  const nn::Dropout& dropout = {});

  nn::Dropout dropout(std::uint64_t seed) const { return {options_.dropout, seed}; }
  const HandwritingOptions& options() const { return options_; }
  bool has_window() const { return options_.mechanism != "none" && options_.vocabulary > 0; }

 private:
  HandwritingOptions options_;
  std::vector<nn::RecurrentNetwork> layers_;
  at::Tensor window_weight_, window_bias_;  // [3 K, width], [3 K]
  nn::Linear output_{nullptr};
};
TORCH_MODULE(Handwriting);

}  // namespace cogwheel::tasks::handwriting
