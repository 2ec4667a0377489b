// Values that are computed twice where hooks see what lies between: once as in any pass, for its bits, and once through
// what the hooks saw, for the derivatives.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <initializer_list>

namespace cogwheel::nn {

inline bool has_derivatives(const at::Tensor& tensor) {
  return (at::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(/*level=*/0).defined();
}

// The numbers of `value` with the derivatives of `path()`, the same but for rounding, which is computed only if one of
// `value` and `seen` has any.
template <class Path>
at::Tensor with_derivatives_of(const at::Tensor& value, std::initializer_list<at::Tensor> seen, const Path& path) {
  if (!has_derivatives(value) && std::none_of(seen.begin(), seen.end(), has_derivatives)) return value;
  const at::Tensor through = path().to(value.scalar_type());
  return value.detach() + (through - through.detach());
}

}  // namespace cogwheel::nn
