// Norms over the last dimension.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace cogwheel {

// (x − mean) / √(variance + 1e-5), with gains, and biases where asked (torch::nn::LayerNorm has both or neither).
class LayerNormImpl : public torch::nn::Module {
 public:
  LayerNormImpl(std::int64_t width, bool bias);
  at::Tensor forward(const at::Tensor& x);

  void initialize();  // gains 1, biases 0
  static std::int64_t parameter_count(std::int64_t width, bool bias) { return bias ? 2 * width : width; }

 private:
  at::Tensor weight_, bias_;
};
TORCH_MODULE(LayerNorm);

}  // namespace cogwheel
