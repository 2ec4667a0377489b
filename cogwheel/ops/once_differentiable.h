// The autograd node of a derivative that has none itself: a second derivative raises rather than being silently wrong.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

namespace cogwheel {

// `function` makes a tuple of tensors. What it may be differentiated by stands among the arguments of `apply`.
template <auto function>
struct OnceDifferentiable : torch::autograd::Function<OnceDifferentiable<function>> {
  template <class... Arguments>
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext*, const Arguments&... arguments) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return std::apply([](const auto&... tensors) { return torch::autograd::variable_list{tensors...}; },
                      function(arguments...));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "attention: derivative: expected the first, got the second; the fused kernels have none");
  }
};

}  // namespace cogwheel
