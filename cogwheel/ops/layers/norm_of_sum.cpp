#include "cogwheel/ops/layers/norm_of_sum.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>

#include "cogwheel/ops/layers/norm_rows.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

using Normed = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // normed, sum, moments
using NormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Of x's shape and type, or bfloat16 if x is float32.
void check_rows(const char* name, const at::Tensor& tensor, const at::Tensor& x) {
  const std::string what = std::string("norm_of_sum: ") + name;
  check_device_of_x(what, tensor, x);
  if (tensor.sym_sizes() != x.sym_sizes() ||
      (tensor.scalar_type() != x.scalar_type() &&
       !(tensor.scalar_type() == at::kBFloat16 && x.scalar_type() == at::kFloat)))
    refuse_argument(what, "the shape and type of x, or bfloat16 beside float32",
                    shape_text(tensor) + " " + c10::toString(tensor.scalar_type()));
}

void check_norm(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                const OptionalTensor& bias) {
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)
    refuse_argument("norm_of_sum: x dtype", "float32 or float64", c10::toString(x.scalar_type()));
  if (x.dim() == 0 || x.sym_size(-1) == 0) refuse_argument("norm_of_sum: x", "[..., width]", shape_text(x));
  if (delta) check_rows("delta", *delta, x);
  check_beside_x("norm_of_sum: weight", weight, x, {x.sym_size(-1)});
  if (bias) check_beside_x("norm_of_sum: bias", *bias, x, {x.sym_size(-1)});
}

at::ScalarType normed_type(const at::Tensor& x, bool in_bfloat16) {
  return in_bfloat16 && x.scalar_type() == at::kFloat ? at::kBFloat16 : x.scalar_type();
}

at::Tensor nothing(const at::Tensor& x) { return at::empty({0}, x.options()); }

Normed empty_normed(const at::Tensor& x, bool has_delta, bool in_bfloat16) {
  auto sizes = x.sym_sizes().vec();
  const at::Tensor normed = at::empty_symint(sizes, x.options().dtype(normed_type(x, in_bfloat16)));
  const at::Tensor sum = has_delta ? at::empty_symint(sizes, x.options()) : nothing(x);
  sizes.back() = 2;
  return {normed, sum, at::empty_symint(sizes, x.options())};
}

Normed norm_of_sum_cpu(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                       const OptionalTensor& bias, bool centered, double epsilon, bool in_bfloat16) {
  check_norm(x, delta, weight, bias);
  const auto [normed, sum, moments] = empty_normed(x, delta.has_value(), in_bfloat16);
  const auto contiguous = [](const OptionalTensor& tensor) { return tensor ? tensor->contiguous() : at::Tensor(); };
  const at::Tensor rows = x.contiguous();
  norm_rows({rows, contiguous(delta), weight.contiguous(), contiguous(bias), centered, epsilon, delta ? sum : rows,
             normed, moments});
  return {normed, sum, moments};
}

Normed norm_of_sum_meta(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                        const OptionalTensor& bias, bool, double, bool in_bfloat16) {
  check_norm(x, delta, weight, bias);
  return empty_normed(x, delta.has_value(), in_bfloat16);
}

struct MomentsOfRows {
  at::Tensor mean, inverse;  // [..., 1]; the mean is undefined where it is not subtracted
  at::Tensor normalised(const at::Tensor& sum) const { return (mean.defined() ? sum - mean : sum) * inverse; }
};

MomentsOfRows moments_of(const at::Tensor& sum, bool centered, double epsilon) {
  const at::Tensor mean = centered ? sum.mean(-1, true) : at::Tensor();
  return {mean, ((centered ? sum - mean : sum).square().mean(-1, true) + epsilon).rsqrt()};
}

// The same in ATen's operators, for tangents and for devices without a kernel.
Normed norm_of_sum_composed(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                            const OptionalTensor& bias, bool centered, double epsilon, bool in_bfloat16) {
  check_norm(x, delta, weight, bias);
  const at::Tensor sum = delta ? x + *delta : x;
  const MomentsOfRows moments = moments_of(sum, centered, epsilon);
  const at::Tensor scaled = moments.normalised(sum) * weight, normed = bias ? scaled + *bias : scaled;
  const at::Tensor mean = centered ? moments.mean : at::zeros_like(moments.inverse);
  return {normed.to(normed_type(x, in_bfloat16)), delta ? sum : nothing(x),
          at::cat({mean, moments.inverse}, -1).detach()};
}

// The gradients of x, of delta (empty where it is that of x), of weight and of bias.
NormGradients empty_norm_gradients(const at::Tensor& sum, const at::Tensor& weight, bool delta_in_bfloat16) {
  const at::Tensor of_x = at::empty_symint(sum.sym_sizes(), sum.options());
  return {of_x, delta_in_bfloat16 ? at::empty_like(of_x, of_x.options().dtype(at::kBFloat16)) : nothing(sum),
          at::zeros_like(weight), at::zeros_like(weight)};
}

void check_gradients(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient, const at::Tensor& sum,
                     const at::Tensor& weight, const at::Tensor& moments) {
  check_norm(sum, sum_gradient, weight, std::nullopt);
  check_rows("gradient", normed_gradient, sum);
  check_device_of_x("norm_of_sum: moments", moments, sum);
  if (moments.scalar_type() != sum.scalar_type() || moments.sym_numel() * sum.sym_size(-1) != sum.sym_numel() * 2)
    refuse_argument("norm_of_sum: moments", "two for each row", shape_text(moments));
}

NormGradients norm_of_sum_backward_cpu(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                                       const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                                       bool centered, double, bool delta_in_bfloat16) {
  check_gradients(normed_gradient, sum_gradient, sum, weight, moments);
  const auto [of_x, of_delta, of_weight, of_bias] = empty_norm_gradients(sum, weight, delta_in_bfloat16);
  norm_rows_backward({sum.contiguous(), weight.contiguous(), moments.contiguous(),
                      sum_gradient ? sum_gradient->to(sum.scalar_type()).contiguous() : at::Tensor(),
                      normed_gradient.contiguous(), centered, of_x, delta_in_bfloat16 ? of_delta : at::Tensor(),
                      of_weight, of_bias});
  return {of_x, of_delta, of_weight, of_bias};
}

NormGradients norm_of_sum_backward_meta(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                                        const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                                        bool, double, bool delta_in_bfloat16) {
  check_gradients(normed_gradient, sum_gradient, sum, weight, moments);
  return empty_norm_gradients(sum, weight, delta_in_bfloat16);
}

// As differentiate(), but recomputing the moments of `sum`, so that derivatives go through them.
NormGradients backward_formula(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                               const at::Tensor& sum, const at::Tensor& weight, bool centered, double epsilon,
                               bool delta_in_bfloat16) {
  const MomentsOfRows moments = moments_of(sum, centered, epsilon);
  const at::Tensor normalised = moments.normalised(sum), dy = normed_gradient.to(sum.scalar_type()), g = dy * weight;
  at::Tensor of_x = g - normalised * (g * normalised).mean(-1, true);
  if (centered) of_x = of_x - g.mean(-1, true);
  of_x = of_x * moments.inverse;
  if (sum_gradient) of_x = of_x + *sum_gradient;
  const auto over_rows = [&](const at::Tensor& each) { return each.sum_to_size_symint(weight.sym_sizes()); };
  return {of_x, delta_in_bfloat16 ? of_x.to(at::kBFloat16) : nothing(sum), over_rows(dy * normalised), over_rows(dy)};
}

NormGradients norm_of_sum_backward_composed(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                                            const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                                            bool centered, double epsilon, bool delta_in_bfloat16) {
  check_gradients(normed_gradient, sum_gradient, sum, weight, moments);
  return backward_formula(normed_gradient, sum_gradient, sum, weight, centered, epsilon, delta_in_bfloat16);
}

NormGradients norm_of_sum_backward(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                                   const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                                   bool centered, double epsilon, bool delta_in_bfloat16) {
  static const auto handle = find_operator<decltype(norm_of_sum_backward)>("cogwheel::norm_of_sum_backward");
  return handle.call(normed_gradient, sum_gradient, sum, weight, moments, centered, epsilon, delta_in_bfloat16);
}

NormGradients norm_of_sum_backward_autograd(const at::Tensor& normed_gradient, const OptionalTensor& sum_gradient,
                                            const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                                            bool centered, double epsilon, bool delta_in_bfloat16) {
  const auto listed = [](const NormGradients& gradients) {
    const auto& [of_x, of_delta, of_weight, of_bias] = gradients;
    return variable_list{of_x, of_delta, of_weight, of_bias};
  };
  const auto fused = [&] {
    return listed(norm_of_sum_backward(normed_gradient, sum_gradient, sum, weight, moments, centered, epsilon,
                                       delta_in_bfloat16));
  };
  const auto composition = [=](const variable_list& inputs) {
    return listed(
        backward_formula(inputs[0], or_none(inputs[1]), inputs[2], inputs[3], centered, epsilon, delta_in_bfloat16));
  };
  const variable_list gradients = differentiated_by(
      "NormOfSumBackwardBackward", {normed_gradient, or_undefined(sum_gradient), sum, weight}, fused, composition);
  return {gradients[0], gradients[1], gradients[2], gradients[3]};
}

// The state of a call that backward needs.
struct NormCall {
  bool has_delta, delta_in_bfloat16, centered;
  double epsilon;

  // Of x, delta, weight and bias, from the gradients of normed and sum.
  variable_list backward(const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& moments,
                         const variable_list& gradients) const {
    const OptionalTensor sum_gradient = has_delta ? or_none(gradients[1]) : std::nullopt;
    if (!gradients[0].defined())
      return {*sum_gradient, delta_in_bfloat16 ? sum_gradient->to(at::kBFloat16) : *sum_gradient, {}, {}};
    const auto [of_x, of_delta, of_weight, of_bias] =
        norm_of_sum_backward(gradients[0], sum_gradient, sum, weight, moments, centered, epsilon, delta_in_bfloat16);
    return {of_x, delta_in_bfloat16 ? of_delta : of_x, of_weight, of_bias};
  }
};

Normed norm_of_sum_autograd(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                            const OptionalTensor& bias, bool centered, double epsilon, bool in_bfloat16) {
  const variable_list inputs{x, or_undefined(delta), weight, or_undefined(bias)};
  if (has_tangent(inputs)) return norm_of_sum_composed(x, delta, weight, bias, centered, epsilon, in_bfloat16);
  Normed outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    outputs = ops::norm_of_sum(x, delta, weight, bias, centered, epsilon, in_bfloat16);
  }
  if (!needs_record(inputs)) return outputs;
  const auto& [normed, sum, moments] = outputs;
  const NormCall call{delta.has_value(), delta && delta->scalar_type() != x.scalar_type(), centered, epsilon};
  // Neither x nor delta is kept if there is their sum, which backward reads anyway.
  if (delta)
    record_saving("NormOfSumBackward", inputs, {normed, sum},
                  {.inputs = {weight}, .outputs = {sum}, .constants = {moments}},
                  [call](const variable_list& given, const variable_list& made, const variable_list& gradients) {
                    return call.backward(made[0], given[0], made[1], gradients);
                  });
  else
    record_saving("NormOfSumBackward", inputs, {normed}, {.inputs = {weight, x}, .outputs = {}, .constants = {moments}},
                  [call](const variable_list& given, const variable_list& made, const variable_list& gradients) {
                    return call.backward(given[1], given[0], made[0], gradients);
                  });
  return outputs;
}

}  // namespace

Normed norm_of_sum(const at::Tensor& x, const OptionalTensor& delta, const at::Tensor& weight,
                   const OptionalTensor& bias, bool centered, double epsilon, bool in_bfloat16) {
  static const auto handle = find_operator<decltype(ops::norm_of_sum)>("cogwheel::norm_of_sum");
  return handle.call(x, delta, weight, bias, centered, epsilon, in_bfloat16);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "norm_of_sum(Tensor x, Tensor? delta, Tensor weight, Tensor? bias, bool centered, float epsilon, bool "
      "in_bfloat16=False) -> (Tensor normed, Tensor sum, Tensor moments)");
  library.def(
      "norm_of_sum_backward(Tensor normed_gradient, Tensor? sum_gradient, Tensor sum, Tensor weight, Tensor moments, "
      "bool centered, float epsilon, bool delta_in_bfloat16=False) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("norm_of_sum", norm_of_sum_cpu);
  library.impl("norm_of_sum_backward", norm_of_sum_backward_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("norm_of_sum", norm_of_sum_meta);
  library.impl("norm_of_sum_backward", norm_of_sum_backward_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("norm_of_sum", norm_of_sum_composed);
  library.impl("norm_of_sum_backward", norm_of_sum_backward_composed);
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("norm_of_sum", norm_of_sum_autograd);
  library.impl("norm_of_sum_backward", norm_of_sum_backward_autograd);
}

}  // namespace cogwheel::ops
