#include "cogwheel/runs/training/weight_average.h"

#include <ATen/ops/_foreach_lerp.h>
#include <torch/utils.h>

namespace cogwheel::runs {

WeightAverage::WeightAverage(const std::vector<std::pair<std::string, at::Tensor>>& weights, double decay)
    : decay_(decay) {
  for (const auto& [name, weight] : weights) {
    weights_.push_back(weight);
    averages_.emplace_back(name, weight.detach().clone());
  }
}

void WeightAverage::update() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> averages, weights;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    averages.push_back(averages_[i].second);
    weights.push_back(weights_[i].detach());
  }
  at::_foreach_lerp_(averages, weights, 1 - decay_);
}

void WeightAverage::exchange() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    // With a count of changes of its own: an average may change between a forward and a backward pass.
    const at::Tensor weight = weights_[i].variable_data();
    weights_[i].set_data(averages_[i].second);
    averages_[i].second = weight;
  }
}

WeightAverage::InModel::InModel(WeightAverage* average) : average_(average) {
  if (average_ != nullptr) average_->exchange();
}
WeightAverage::InModel::~InModel() {
  if (average_ != nullptr) average_->exchange();
}

}  // namespace cogwheel::runs
