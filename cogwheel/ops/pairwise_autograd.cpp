// First derivatives of cogwheel::pairwise; a second one raises rather than being silently wrong.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "cogwheel/ops/once_differentiable.h"
#include "cogwheel/ops/pairwise_schema.h"

namespace cogwheel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor ? *tensor : at::Tensor(); }
OptionalTensor or_nothing(const at::Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }
bool needs_gradient(const OptionalTensor& tensor) { return tensor && tensor->requires_grad(); }

class Pairwise : public torch::autograd::Function<Pairwise> {
 public:
  // What has a gradient stands in the options too; as arguments autograd sees it.
  static variable_list forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& parameters, const OptionalTensor& bias,
                               const OptionalTensor& energy_bias, const OptionalTensor& centers,
                               const OptionalTensor& score_weight, std::string_view mechanism,
                               const WantedGradients& wanted, const PairwiseOptions& options) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [output, shift, mass, statistics] = pairwise(query, key, value, parameters, mechanism, options);
    context->save_for_backward({query, key, value, parameters, output, shift, mass, or_undefined(options.key_lengths),
                                or_undefined(options.ranges), or_undefined(bias), or_undefined(energy_bias),
                                or_undefined(options.alibi), or_undefined(centers), or_undefined(options.seed),
                                or_undefined(score_weight), or_undefined(options.first_positions)});
    auto& data = context->saved_data;
    data["mechanism"] = std::string(mechanism);
    data["bias"] = wanted.bias;
    data["energy_bias"] = wanted.energy_bias;
    data["centers"] = wanted.centers;
    data["scale"] = options.scale;
    data["mask"] = std::string(options.mask);
    data["window"] = options.window;
    data["sub_heads"] = options.sub_heads;
    data["sigma"] = options.sigma;
    data["dropout"] = options.dropout;
    context->mark_non_differentiable({shift, mass, statistics});
    return {output, shift, mass, statistics};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    at::Tensor none;
    if (!gradients[0].defined()) return variable_list(11);
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const WantedGradients wanted{data["bias"].toBool(), data["energy_bias"].toBool(), data["centers"].toBool()};
    const PairwiseOptions options{.scale = data["scale"].toDouble(),
                                  .mask = data["mask"].toStringRef(),
                                  .window = data["window"].toInt(),
                                  .sub_heads = data["sub_heads"].toInt(),
                                  .key_lengths = or_nothing(saved[7]),
                                  .ranges = or_nothing(saved[8]),
                                  .bias = or_nothing(saved[9]),
                                  .energy_bias = or_nothing(saved[10]),
                                  .alibi = or_nothing(saved[11]),
                                  .centers = or_nothing(saved[12]),
                                  .sigma = data["sigma"].toDouble(),
                                  .dropout = data["dropout"].toDouble(),
                                  .seed = or_nothing(saved[13]),
                                  .score_weight = or_nothing(saved[14]),
                                  .first_positions = or_nothing(saved[15])};
    const auto [query, key, value, parameters, bias, energy_bias, centers, score_weight] =
        pairwise_backward(gradients[0], saved[0], saved[1], saved[2], saved[3], {saved[4], saved[5], saved[6]},
                          data["mechanism"].toStringRef(), wanted, options);
    return {query,
            key,
            value,
            parameters,
            wanted.bias ? bias : none,
            wanted.energy_bias ? energy_bias : none,
            wanted.centers ? centers : none,
            options.score_weight ? score_weight : none,
            none,
            none,
            none};
  }
};

// Biases, centers and weights stand in the options too; as arguments autograd sees them.
PairwiseGradients backward_of(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const at::Tensor& parameters, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                              const PairwiseSaved& saved, std::string_view mechanism, const WantedGradients& wanted,
                              const PairwiseOptions& options) {
  return pairwise_backward(gradient, query, key, value, parameters, saved, mechanism, wanted, options);
}

PairwiseOutputs forward_autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 const at::Tensor& parameters, std::string_view mechanism,
                                 const PairwiseOptions& options) {
  const WantedGradients wanted{needs_gradient(options.bias), needs_gradient(options.energy_bias),
                               needs_gradient(options.centers)};
  const auto outputs = Pairwise::apply(query, key, value, parameters, options.bias, options.energy_bias,
                                       options.centers, options.score_weight, mechanism, wanted, options);
  return {outputs[0], outputs[1], outputs[2], outputs[3]};
}

PairwiseGradients backward_autograd(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved& saved,
                                    std::string_view mechanism, const WantedGradients& wanted,
                                    const PairwiseOptions& options) {
  const auto outputs =
      OnceDifferentiable<backward_of>::apply(gradient, query, key, value, parameters, options.bias, options.energy_bias,
                                             options.centers, options.score_weight, saved, mechanism, wanted, options);
  return {outputs[0], outputs[1], outputs[2], outputs[3], outputs[4], outputs[5], outputs[6], outputs[7]};
}

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("pairwise", unbundled<forward_autograd>);
  library.impl("pairwise_backward", unbundled_backward<backward_autograd>);
}

}  // namespace cogwheel
