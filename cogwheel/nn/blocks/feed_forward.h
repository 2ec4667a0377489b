// The position-wise network of a transformer layer.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/ranks/divided_parameter.h"
#include "cogwheel/nn/weights/linear.h"

namespace cogwheel::nn {

enum class Activation {
  gelu,    // out(gelu(up(x)))
  swiglu,  // out(silu(gate(x)) ∘ up(x)), gate and up in one matrix `up`, in this order; Shazeer, "GLU Variants Improve
           // Transformer" (2020), eq. 6
  gelu_tanh,  // as gelu, by the tanh that approximates it: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016),
              // section 2; GPT-2's "gelu_new"
};
// Their names, in their order.
const std::vector<std::string>& activation_names();
Activation activation_of(std::string_view name);  // a known one

struct FeedForwardOptions {
  std::int64_t width = 0;
  std::int64_t hidden = 0;  // units that `out` reads; for swiglu `up` computes twice as many
  Activation activation = Activation::gelu;
  bool bias = true;
};

class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const FeedForwardOptions& options);
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context = {});  // [..., width] → [..., width]
  bool has_hook(HookPlace place) const;
  // Of which each rank has a share in passes of a context with `heads`: those of its hidden units.
  std::vector<DividedParameter> divided_parameters() const;
  // The derivatives of each token's output by its input: [N, width] → [N, width of the output, width]. Without
  // gradients.
  at::Tensor jacobians(const at::Tensor& x);
  std::int64_t numbers_of_jacobian() const;  // that `jacobians` holds at once for each token

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation);

 private:
  Activation activation_;
  Linear up_{nullptr}, out_{nullptr};
};
TORCH_MODULE(FeedForward);

}  // namespace cogwheel::nn
