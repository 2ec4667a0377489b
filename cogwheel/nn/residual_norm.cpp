#include "cogwheel/nn/residual_norm.h"

#include "cogwheel/ops/layers/norm_of_sum.h"

namespace cogwheel::nn {

NormOfSum norm_of_sum(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, const at::Tensor& bias,
                      NormKind kind, double epsilon, bool in_bfloat16) {
  const auto [normed, sum, moments] = ops::norm_of_sum(x, ops::or_none(delta), weight, ops::or_none(bias),
                                                       kind == NormKind::layer, epsilon, in_bfloat16);
  return {delta.defined() ? sum : x, normed};
}

}  // namespace cogwheel::nn
