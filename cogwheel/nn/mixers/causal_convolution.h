// A causal convolution over tokens, each channel by itself: y_t = b + Σ_j w_j x_{t−3+j}, j = 0…3; 0 before the first.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::nn {

class CausalConvolutionImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t taps = 4;

  explicit CausalConvolutionImpl(std::int64_t channels);

  // x [B, N, channels] → alike. `before` holds the inputs of up to three tokens before x, or is undefined. `places`
  // [N], of packed sequences, are the places of the tokens in their own, before which it reads nothing.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& before = {}, const at::Tensor& places = {});
  // What `before` is for the tokens that follow.
  static at::Tensor tail(const at::Tensor& x, const at::Tensor& before);

  void initialize(const WeightInitializer& initializer, const std::string& name);

 private:
  at::Tensor weight_, bias_;  // [taps, channels], [channels]
};
TORCH_MODULE(CausalConvolution);

}  // namespace cogwheel::nn
