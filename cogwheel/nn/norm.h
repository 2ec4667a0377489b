// Norms over the last dimension.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "cogwheel/nn/residual_norm.h"

namespace cogwheel {

class NormImpl : public torch::nn::Module {
 public:
  NormImpl(NormKind kind, std::int64_t width, bool bias);
  at::Tensor forward(const at::Tensor& x);

  // x + delta, and its norm; delta may be undefined. While products are in bfloat16, so is the norm.
  NormOfSum of_sum(const at::Tensor& x, const at::Tensor& delta);

  void initialize();  // weights 1, biases 0

 private:
  NormKind kind_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

}  // namespace cogwheel
