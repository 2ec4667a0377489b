// Each of several readers sees its own mixture of a token and the one before, as the token decides:
//
//   x′ = x_{t−1} − x_t;   for reader i: x_t + x′ ∘ (m_i + tanh((x_t + x′ ∘ m) A_i) B_i)
//
// Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence" (2024), section 3.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::nn {

class TokenShiftImpl : public torch::nn::Module {
 public:
  // `depth` of the layer, layer / layers: deeper ones start with less of the token before.
  TokenShiftImpl(std::int64_t width, std::int64_t readers, double depth);

  // x [B, N, width] → one [B, N, width] for each reader. `last` is the token before x, [B, 1, width]; undefined: 0.
  // `places` [N], of packed sequences, are the places of the tokens in their own: before the first is 0.
  std::vector<at::Tensor> forward(const at::Tensor& x, const at::Tensor& last = {}, const at::Tensor& places = {});

  void initialize(const WeightInitializer& initializer, const std::string& name);

 private:
  double depth_;
  at::Tensor shared_, shares_;        // m [width], m_i [readers, width]
  at::Tensor into_rank_, from_rank_;  // [readers, width, rank], [readers, rank, width]
};
TORCH_MODULE(TokenShift);

}  // namespace cogwheel::nn
