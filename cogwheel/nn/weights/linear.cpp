#include "cogwheel/nn/weights/linear.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::nn {

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs, bool bias) {
  weight_ = new_parameter(*this, "weight", {outputs, inputs});
  if (bias) bias_ = new_parameter(*this, "bias", {outputs});
}

at::Tensor LinearImpl::forward(const at::Tensor& x) { return matrix_product(x, weight_, bias_); }

void LinearImpl::initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation) {
  const torch::NoGradGuard no_grad;
  initializer.normal(weight_, name + ".weight", standard_deviation);
  if (bias_.defined()) bias_.zero_();
}

}  // namespace cogwheel::nn
