#include "cogwheel/nn/norm.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/matrix_product.h"

namespace cogwheel {

NormImpl::NormImpl(NormKind kind, std::int64_t width, bool bias) : kind_(kind) {
  weight_ = register_parameter("weight", torch::empty({width}));
  if (kind == NormKind::layer && bias) bias_ = register_parameter("bias", torch::empty({width}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) { return of_sum(x, {}).normed; }

NormOfSum NormImpl::of_sum(const at::Tensor& x, const at::Tensor& delta) {
  return norm_of_sum(x, delta, weight_, bias_, kind_, default_epsilon(kind_), BFloat16Products::enabled());
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
