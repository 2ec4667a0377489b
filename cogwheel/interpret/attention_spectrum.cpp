#include "cogwheel/interpret/attention_spectrum.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/mixers/attention_layer.h"
#include "cogwheel/nn/rotary.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

AttentionSpectrum attention_spectrum(const at::Tensor& matrix) {
  const torch::NoGradGuard no_gradient;
  if (matrix.dim() != 2 || matrix.size(0) != matrix.size(1) || matrix.size(0) < 2)
    throw UsageError(expected_got("attention matrix", "[tokens, tokens], two or more", shape_text(matrix.sizes())));
  const at::Tensor a = matrix.detach().to(at::kCPU, at::kDouble);
  if (!a.isfinite().all().item<bool>()) throw UsageError(expected_got("attention matrix", "finite numbers", "others"));
  const bool triangular = a.triu(1).eq(0).all().item<bool>();
  const at::Tensor real_or_complex = triangular ? a.diagonal() : at::linalg_eigvals(a);
  const at::Tensor real = triangular ? real_or_complex : at::real(real_or_complex);
  const at::Tensor sizes = std::get<0>(real_or_complex.abs().sort(0, /*descending=*/true));
  const at::Tensor symmetric = at::linalg_eigvalsh((a + a.t()) / 2);
  return {.least = real.min().item<double>(),
          .largest = real.max().item<double>(),
          .imaginary = triangular ? 0 : at::imag(real_or_complex).abs().max().item<double>(),
          .radius = sizes[0].item<double>(),
          .second = sizes[1].item<double>(),
          .least_symmetric = symmetric.min().item<double>(),
          .largest_symmetric = symmetric.max().item<double>(),
          .largest_singular = at::linalg_svdvals(a).max().item<double>()};
}

std::vector<at::Tensor> unmasked_attention(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  const torch::NoGradGuard no_gradient;
  std::vector<at::Tensor> inputs(model.layers().size()), found(model.layers().size());
  nn::Hooks reading;
  reading.read(nn::HookPlace::attention_norm, [&](const nn::HookPoint& at, const at::Tensor& value) {
    inputs[static_cast<std::size_t>(at.layer)] = value;
  });
  model.forward(tokens, {.hooks = &reading});
  const auto rotary = tasks::language::rotary_options(model.options());
  const auto turned = rotary ? std::make_shared<nn::Rotary>(*rotary) : nullptr;
  const auto given = model.named_parameters();
  for (std::size_t layer = 0; layer < found.size(); ++layer) {
    const nn::TransformerBlock& block = model.layers()[layer];
    nn::AttentionLayerOptions options =
        tasks::language::layer_options(model.options(), static_cast<std::int64_t>(layer)).attention;
    if (!block->has_hook(nn::HookPlace::scores) || options.window > 0 || options.alibi) continue;
    options.causal = false;
    nn::AttentionLayer whole(options, turned);
    for (auto& parameter : whole->named_parameters()) {
      const at::Tensor& of_model = given["layers." + std::to_string(layer) + ".attention." + parameter.key()];
      parameter.value().set_data(of_model.detach());
    }
    const nn::Norm& norm = block->attention_norm();
    at::Tensor x = inputs[layer] * norm->gain();
    if (norm->bias().defined()) x = x + norm->bias();
    nn::Hooks hooks;
    hooks.read(nn::HookPlace::pattern,
               [&](const nn::HookPoint&, const at::Tensor& weights) { found[layer] = weights[0].to(at::kDouble); });
    whole->forward(x, {.hooks = &hooks});
  }
  return found;
}

}  // namespace cogwheel::interpret
