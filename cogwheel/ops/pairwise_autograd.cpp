// First derivatives of cogwheel::pairwise; a second one raises rather than being silently wrong.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "cogwheel/ops/pairwise.h"

namespace cogwheel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Pairwise : public torch::autograd::Function<Pairwise> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, c10::string_view mechanism, double scale, c10::string_view mask,
                               std::int64_t sub_heads) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [output, shift, mass] = pairwise(query, key, value, mechanism, scale, mask, sub_heads);
    context->save_for_backward({query, key, value, output, shift, mass});
    context->saved_data["mechanism"] = std::string(mechanism);
    context->saved_data["scale"] = scale;
    context->saved_data["mask"] = std::string(mask);
    context->saved_data["sub_heads"] = sub_heads;
    context->mark_non_differentiable({shift, mass});
    return {output, shift, mass};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    at::Tensor none;
    if (!gradients[0].defined()) return {none, none, none, none, none, none, none};
    const auto [query, key, value] =
        pairwise_backward(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                          context->saved_data["mechanism"].toStringRef(), context->saved_data["scale"].toDouble(),
                          context->saved_data["mask"].toStringRef(), context->saved_data["sub_heads"].toInt());
    return {query, key, value, none, none, none, none};
  }
};

class PairwiseBackwardOnce : public torch::autograd::Function<PairwiseBackwardOnce> {
 public:
  static variable_list forward(AutogradContext*, const at::Tensor& gradient, const at::Tensor& query,
                               const at::Tensor& key, const at::Tensor& value, const at::Tensor& output,
                               const at::Tensor& shift, const at::Tensor& mass, c10::string_view mechanism,
                               double scale, c10::string_view mask, std::int64_t sub_heads) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [query_gradient, key_gradient, value_gradient] =
        pairwise_backward(gradient, query, key, value, output, shift, mass, mechanism, scale, mask, sub_heads);
    return {query_gradient, key_gradient, value_gradient};
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "attention: derivative: expected the first, got the second; the fused kernels have none");
  }
};

PairwiseOutputs forward_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 c10::string_view mechanism, double scale, c10::string_view mask,
                                 std::int64_t sub_heads) {
  const auto outputs = Pairwise::apply(query, key, value, mechanism, scale, mask, sub_heads);
  return {outputs[0], outputs[1], outputs[2]};
}

PairwiseOutputs backward_autograd(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const at::Tensor& output, const at::Tensor& shift,
                                  const at::Tensor& mass, c10::string_view mechanism, double scale,
                                  c10::string_view mask, std::int64_t sub_heads) {
  const auto outputs =
      PairwiseBackwardOnce::apply(gradient, query, key, value, output, shift, mass, mechanism, scale, mask, sub_heads);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("pairwise", forward_autograd);
  library.impl("pairwise_backward", backward_autograd);
}

}  // namespace cogwheel
