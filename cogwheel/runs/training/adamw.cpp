#include "cogwheel/runs/training/adamw.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/utils.h>

#include <cmath>

namespace cogwheel::runs {

AdamW::AdamW(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const TrainingOptions& options)
    : options_(options) {
  // Decay pulls matrices toward 0; gains and biases have no reason to be small.
  for (const double weight_decay : {options.weight_decay, 0.0}) groups_.push_back({{}, {}, {}, {}, weight_decay});
  for (const auto& [name, value] : parameters) {
    const torch::NoGradGuard no_grad;
    parameters_.push_back({name, value, at::zeros_like(value), at::zeros_like(value)});
    Group& group = groups_[value.dim() >= 2 ? 0 : 1];
    group.values.push_back(value);
    group.first_moments.push_back(parameters_.back().first_moment);
    group.second_moments.push_back(parameters_.back().second_moment);
    group.steps.push_back(at::full({}, 0, value.options().dtype(at::kFloat)));
  }
}

double AdamW::clip_gradients() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters_) gradients.push_back(parameter.value.grad());
  const double norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients))).item<double>();
  // As in torch.nn.utils.clip_grad_norm_: the small term keeps the division finite.
  if (options_.clip > 0 && std::isfinite(norm) && norm > options_.clip)
    at::_foreach_mul_(gradients, options_.clip / (norm + 1e-6));
  return norm;
}

void AdamW::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  ++steps_done_;
  for (auto& group : groups_) {
    if (group.values.empty()) continue;
    std::vector<at::Tensor> gradients;
    for (const auto& value : group.values) gradients.push_back(value.grad());
    for (auto& step : group.steps) step.fill_(steps_done_);
    at::_fused_adamw_(group.values, gradients, group.first_moments, group.second_moments, {}, group.steps,
                      learning_rate, options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
                      /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

void AdamW::zero_gradients() {
  for (auto& parameter : parameters_) parameter.value.mutable_grad().reset();
}

}  // namespace cogwheel::runs
