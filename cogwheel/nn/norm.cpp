#include "cogwheel/nn/norm.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel {

LayerNormImpl::LayerNormImpl(std::int64_t width, bool bias) {
  weight_ = register_parameter("weight", torch::empty({width}));
  if (bias) bias_ = register_parameter("bias", torch::empty({width}));
}

at::Tensor LayerNormImpl::forward(const at::Tensor& x) {
  return at::layer_norm(x, {weight_.size(0)}, weight_, bias_, 1e-5);
}

void LayerNormImpl::initialize() {
  const torch::NoGradGuard no_grad;
  weight_.fill_(1);
  if (bias_.defined()) bias_.zero_();
}

}  // namespace cogwheel
