#include "cogwheel/runs/training/muon.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/weights/linear.h"

namespace cogwheel::runs {
namespace {

constexpr double a = 3.4445, b = -4.7750, c = 2.0315, smallest_norm = 1e-7;
constexpr int iterations = 5;

}  // namespace

at::Tensor muon_direction(const at::Tensor& value, const at::Tensor& momentum, const TrainingOptions& options) {
  const at::Tensor gradient = value.grad();
  at::Tensor sum = momentum;
  sum.lerp_(gradient, 1 - options.momentum);
  return gradient.lerp(sum, options.momentum);
}

at::Tensor orthogonalized(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16);
  if (tall) x = x.t();
  x = x / x.norm().clamp_min(smallest_norm);  // no singular value above 1
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const at::Tensor gram = x.mm(x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return tall ? x.t() : x;
}

void muon_update(const at::Tensor& value, const at::Tensor& orthogonal, std::int64_t longer_side, double learning_rate,
                 const TrainingOptions& options) {
  const double factor = 0.2 * std::sqrt(static_cast<double>(longer_side));
  at::Tensor weights = value;
  weights.mul_(1 - learning_rate * options.weight_decay).add_(orthogonal, -learning_rate * factor);
}

std::set<std::string> hidden_matrices(const torch::nn::Module& model) {
  std::set<std::string> names;
  for (const auto& block : model.named_modules()) {
    if (block.value()->as<nn::TransformerBlockImpl>() == nullptr) continue;
    for (const auto& layer : block.value()->named_modules(block.key())) {
      if (layer.value()->as<nn::LinearImpl>() == nullptr) continue;
      for (const auto& parameter : layer.value()->named_parameters(/*recurse=*/false))
        if (parameter.value().dim() == 2) names.insert(layer.key() + "." + parameter.key());
    }
  }
  return names;
}

}  // namespace cogwheel::runs
