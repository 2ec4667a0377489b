// Norms over the last dimension.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace cogwheel {

enum class NormKind {
  layer,  // (x − mean) / √(variance + 1e-5), with gains, and biases where asked (torch::nn::LayerNorm: both or neither)
  rms,  // x / √(mean(x²) + 1e-6), with gains alone
};

class NormImpl : public torch::nn::Module {
 public:
  NormImpl(NormKind kind, std::int64_t width, bool bias);
  at::Tensor forward(const at::Tensor& x);

  void initialize();  // gains 1, biases 0
  static std::int64_t parameter_count(NormKind kind, std::int64_t width, bool bias);

 private:
  NormKind kind_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

}  // namespace cogwheel
