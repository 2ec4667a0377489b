// y = x Wᵀ + b. torch::nn::Linear draws initial weights that every model here overwrites, and allows no choice of the
// matrix product (matrix_product.h).
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "cogwheel/nn/weights/collected_weight.h"
#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::nn {

class LinearImpl : public torch::nn::Module {
 public:
  LinearImpl(std::int64_t inputs, std::int64_t outputs, bool bias);
  at::Tensor forward(const at::Tensor& x);              // [..., inputs] → [..., outputs]
  const at::Tensor& weight() const { return weight_; }  // [outputs, inputs]
  const at::Tensor& bias() const { return bias_; }      // [outputs], or undefined
  // For a forward pass that multiplies by the weight in many steps.
  CollectedWeight collected() const { return {weight_, bias_}; }

  // `name` is the full name of the module, dots included.
  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation);

 private:
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Linear);

}  // namespace cogwheel::nn
