#include "cogwheel/nn/norm.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/rms_norm.h"

namespace cogwheel {

NormImpl::NormImpl(NormKind kind, std::int64_t width, bool bias) : kind_(kind) {
  weight_ = register_parameter("weight", torch::empty({width}));
  if (kind == NormKind::layer && bias) bias_ = register_parameter("bias", torch::empty({width}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) {
  if (kind_ == NormKind::rms) return rms_norm(x, weight_, 1e-6);
  return at::layer_norm(x, {weight_.size(0)}, weight_, bias_, 1e-5);
}

void NormImpl::initialize() {
  const torch::NoGradGuard no_grad;
  weight_.fill_(1);
  if (bias_.defined()) bias_.zero_();
}

std::int64_t NormImpl::parameter_count(NormKind kind, std::int64_t width, bool bias) {
  return kind == NormKind::layer && bias ? 2 * width : width;
}

}  // namespace cogwheel
