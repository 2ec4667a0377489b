// The few steps of training that a lab makes: AdamW without weight decay, a cosine down to 0.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cogwheel::labs {

struct TrainedCurve {
  std::vector<double> step, loss;  // the mean loss since the point before
};

// `loss_of_step` gives the loss of a step, counted from 0; parameters learn from its gradient. Throws Error where a
// loss is not finite.
TrainedCurve train_lab(const std::vector<std::pair<std::string, at::Tensor>>& parameters, std::int64_t steps,
                       double learning_rate, const std::function<at::Tensor(std::int64_t step)>& loss_of_step);

}  // namespace cogwheel::labs
