// The position-wise network of a transformer layer: out(gelu(in(x))).
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "cogwheel/nn/linear.h"

namespace cogwheel {

class FeedForwardImpl : public torch::nn::Module {
 public:
  FeedForwardImpl(std::int64_t width, std::int64_t hidden, bool bias);
  at::Tensor forward(const at::Tensor& x);

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);
  static std::int64_t parameter_count(std::int64_t width, std::int64_t hidden, bool bias);

 private:
  Linear in_{nullptr}, out_{nullptr};
};
TORCH_MODULE(FeedForward);

}  // namespace cogwheel
