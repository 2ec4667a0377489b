#include "cogwheel/nn/norm.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/weights/derivative_path.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"

namespace cogwheel::nn {

NormImpl::NormImpl(NormKind kind, std::int64_t width, bool bias, std::optional<double> epsilon)
    : kind_(kind), epsilon_(epsilon.value_or(default_epsilon(kind))) {
  weight_ = new_parameter(*this, "weight", {width});
  if (kind == NormKind::layer && bias) bias_ = new_parameter(*this, "bias", {width});
}

at::Tensor NormImpl::forward(const at::Tensor& x) { return of_sum(x, {}).normed; }

NormOfSum NormImpl::of_sum(const at::Tensor& x, const at::Tensor& delta, bool wide) {
  return norm_of_sum(x, delta, weight_, bias_, kind_, epsilon_, !wide && BFloat16Products::enabled());
}

NormOfSum NormImpl::of_sum(const at::Tensor& x, const at::Tensor& delta, const ForwardContext& context, NormHooks hooks,
                           bool wide) {
  if (!context.wants(hooks.scale) && !context.wants(hooks.normalized)) return of_sum(x, delta, wide);
  const at::Tensor sum = delta.defined() ? x + delta : x;
  const at::Tensor centered = kind_ == NormKind::layer ? sum - sum.mean(at::IntArrayRef{-1}, true) : sum;
  const at::Tensor made_scale = (centered.square().mean(at::IntArrayRef{-1}, true) + epsilon_).sqrt();
  const at::Tensor scale = context.hooked(hooks.scale, made_scale), made = centered / scale;
  const at::Tensor normalized = context.hooked(hooks.normalized, made);
  const auto normed = [&] {
    const at::Tensor scaled = normalized * weight_, placed = bias_.defined() ? scaled + bias_ : scaled;
    return !wide && BFloat16Products::enabled() ? placed.to(at::kBFloat16) : placed;
  };
  if (context.changed(hooks.scale, made_scale, scale) || context.changed(hooks.normalized, made, normalized))
    return {sum, normed()};
  const NormOfSum whole = of_sum(x, delta, wide);
  return {whole.sum, with_derivatives_of(whole.normed, {scale, normalized}, normed)};
}

void NormImpl::initialize() {
  const torch::NoGradGuard no_grad;
  weight_.fill_(1);
  if (bias_.defined()) bias_.zero_();
}

}  // namespace cogwheel::nn
