// An exponential moving average of a model's weights, which is measured, sampled and shown in their place: Polyak and
// Juditsky (1992); as diffusion models use it, Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models" (2020),
// appendix B.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace cogwheel::runs {

class WeightAverage {
 public:
  // Begins as the weights. `decay` below 1.
  WeightAverage(const std::vector<std::pair<std::string, at::Tensor>>& weights, double decay);

  // average = decay · average + (1 − decay) · weights.
  void update();
  // By name, in the order of the weights.
  const std::vector<std::pair<std::string, at::Tensor>>& averages() const { return averages_; }

  // While such an object exists, the model has the average for its weights, and `averages` hold these.
  class InModel {
   public:
    explicit InModel(WeightAverage* average);  // null: nothing changes
    ~InModel();
    InModel(const InModel&) = delete;
    InModel& operator=(const InModel&) = delete;

   private:
    WeightAverage* average_;
  };

 private:
  void exchange();

  std::vector<at::Tensor> weights_;
  std::vector<std::pair<std::string, at::Tensor>> averages_;
  double decay_;
};

}  // namespace cogwheel::runs
