#include "cogwheel/nn/linear.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/matrix_product.h"

namespace cogwheel {

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs, bool bias) {
  weight_ = register_parameter("weight", torch::empty({outputs, inputs}));
  if (bias) bias_ = register_parameter("bias", torch::empty({outputs}));
}

at::Tensor LinearImpl::forward(const at::Tensor& x) { return matrix_product(x, weight_, bias_); }

void LinearImpl::initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation) {
  const torch::NoGradGuard no_grad;
  initializer.normal(weight_, name + ".weight", standard_deviation);
  if (bias_.defined()) bias_.zero_();
}

std::int64_t LinearImpl::parameter_count(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return outputs * (inputs + (bias ? 1 : 0));
}

}  // namespace cogwheel
