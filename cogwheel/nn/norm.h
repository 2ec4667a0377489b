// Norms over the last dimension.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/residual_norm.h"

namespace cogwheel::nn {

// The places of one norm: what it divides by, and the result before gain and bias.
struct NormHooks {
  HookPlace scale, normalized;
};

inline constexpr NormHooks final_norm_hooks{HookPlace::final_norm_scale, HookPlace::final_norm};

class NormImpl : public torch::nn::Module {
 public:
  // Without an ε, that of the kind.
  NormImpl(NormKind kind, std::int64_t width, bool bias, std::optional<double> epsilon = {});
  at::Tensor forward(const at::Tensor& x);

  // x + delta, and its norm; delta may be undefined. While products are in bfloat16, so is the norm, unless it is wide:
  // where it is the residual stream.
  NormOfSum of_sum(const at::Tensor& x, const at::Tensor& delta, bool wide = false);
  // The same, for the hooks of the context at these places.
  NormOfSum of_sum(const at::Tensor& x, const at::Tensor& delta, const ForwardContext& context, NormHooks hooks,
                   bool wide = false);

  NormKind kind() const { return kind_; }
  const at::Tensor& gain() const { return weight_; }  // [width]
  const at::Tensor& bias() const { return bias_; }    // [width], or undefined

  void initialize();  // weights 1, biases 0

 private:
  NormKind kind_;
  double epsilon_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

}  // namespace cogwheel::nn
