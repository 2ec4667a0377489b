#include "cogwheel/interpret/copying.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/random.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {
namespace {

at::Tensor normal(at::IntArrayRef sizes, std::uint64_t number) {
  at::Tensor drawn = at::empty(sizes, at::kDouble);
  NumberedDraws draws(0, stream_named("copy"), number);
  for (double* each = drawn.data_ptr<double>(); each != drawn.data_ptr<double>() + drawn.numel(); ++each)
    *each = draws.normal();
  return drawn;
}

}  // namespace

at::Tensor eigenvalue_positivity(const at::Tensor& matrices) {
  const at::Tensor values = at::linalg_eigvals(matrices.to(at::kDouble));
  return at::real(values).sum(-1) / values.abs().sum(-1);
}

CopyingScores copying_scores(const tasks::language::LanguageModelImpl& model) {
  const torch::NoGradGuard no_gradient;
  const auto wide = [](const at::Tensor& of) { return of.detach().to(at::kCPU, at::kDouble); };
  const auto layers = static_cast<std::int64_t>(model.layers().size());
  const at::Tensor between = wide(model.token_embedding()).t().mm(wide(model.unembedding()));  // [W of E, W of U]
  const at::Tensor last_gain = wide(model.final_norm()->gain());
  std::vector<at::Tensor> bare(static_cast<std::size_t>(layers)), full(static_cast<std::size_t>(layers));
  std::int64_t heads = 0, values = 0, width = 0;
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer) {
    const auto circuit = model.layers()[layer]->value_circuit();
    if (!circuit) continue;
    const at::Tensor value = wide(circuit->value);  // [H, D, W]
    at::Tensor output = wide(circuit->output);      // [H, W, D]
    if (circuit->gain.defined()) output = output * wide(circuit->gain);
    const at::Tensor gain = wide(model.layers()[layer]->attention_norm()->gain());
    bare[layer] = eigenvalue_positivity(value.matmul(output));
    full[layer] = eigenvalue_positivity((value * gain).matmul(between).matmul(output * last_gain.unsqueeze(1)));
    heads = std::max(heads, value.size(0));
    values = value.size(1);
    width = value.size(2);
  }
  CopyingScores found{at::full({layers, heads}, std::nan(""), at::kDouble),
                      at::full({layers, heads}, std::nan(""), at::kDouble)};
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (const at::Tensor& of_layer = bare[static_cast<std::size_t>(layer)]; of_layer.defined()) {
      found.bare[layer].narrow(0, 0, of_layer.size(0)).copy_(of_layer);
      found.full[layer].narrow(0, 0, of_layer.size(0)).copy_(full[static_cast<std::size_t>(layer)]);
    }
  if (heads == 0) return found;
  constexpr std::int64_t drawn = 200;
  std::vector<at::Tensor> random;
  for (std::int64_t index = 0; index < drawn; ++index)
    random.push_back(normal({values, width}, 2 * static_cast<std::uint64_t>(index))
                         .mm(normal({width, values}, 2 * static_cast<std::uint64_t>(index) + 1)));
  found.null_deviation = eigenvalue_positivity(at::stack(random)).square().mean().sqrt().item<double>();
  return found;
}

}  // namespace cogwheel::interpret
