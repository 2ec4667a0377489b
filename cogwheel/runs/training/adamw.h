// AdamW (Loshchilov and Hutter 2019) through libtorch's fused kernel: one pass over each tensor. torch::optim::AdamW in
// C++ is not fused.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/runs/configuration/training_options.h"

namespace cogwheel::runs {

class AdamW {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value, first_moment, second_moment;
  };

  AdamW(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const TrainingOptions& options);

  // Clips the gradients to options.clip and returns their global norm before; NaN or infinite if a gradient is.
  double clip_gradients();
  void step(double learning_rate);
  void zero_gradients();  // frees them: the next backward pass stores instead of accumulating

  std::int64_t steps_done() const { return steps_done_; }
  void set_steps_done(std::int64_t steps) { steps_done_ = steps; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  // Tensors with the same weight decay, in the form that the fused kernel takes.
  struct Group {
    std::vector<at::Tensor> values, first_moments, second_moments, steps;
    double weight_decay;
  };

  TrainingOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<Group> groups_;
  std::int64_t steps_done_ = 0;
};

}  // namespace cogwheel::runs
