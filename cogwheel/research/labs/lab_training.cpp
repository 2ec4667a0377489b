#include "cogwheel/research/labs/lab_training.h"

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/training/optimizer.h"

namespace cogwheel::labs {

TrainedCurve train_lab(const std::vector<std::pair<std::string, at::Tensor>>& parameters, std::int64_t steps,
                       double first_learning_rate, const std::function<at::Tensor(std::int64_t step)>& loss_of_step) {
  runs::TrainingOptions options;
  options.steps = steps;
  options.learning_rate = first_learning_rate, options.final_learning_rate = 0;
  options.warm_up = 0;
  options.weight_decay = 0;
  runs::Optimizer optimizer(parameters, options);
  TrainedCurve curve;
  const std::int64_t every = std::max<std::int64_t>(1, steps / 50);
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor loss = loss_of_step(step);
    const double value = loss.item<double>();
    if (!std::isfinite(value))
      throw Error(expected_got("training, step " + std::to_string(step + 1), "a finite loss", std::to_string(value)));
    optimizer.zero_gradients();
    loss.backward();
    optimizer.clip_gradients();
    optimizer.step(runs::learning_rate(options, step));
    sum += value / static_cast<double>(every);
    if ((step + 1) % every == 0) {
      curve.step.push_back(static_cast<double>(step + 1)), curve.loss.push_back(sum);
      sum = 0;
    }
  }
  return curve;
}

}  // namespace cogwheel::labs
