#include "cogwheel/runs/training/gradient_sum.h"

#include <torch/utils.h>

#include <utility>

namespace cogwheel::runs {

GradientSum::Gradients GradientSum::taken_out() {
  Gradients gradients;
  for (at::Tensor& parameter : parameters_) gradients.push_back(std::exchange(parameter.mutable_grad(), {}));
  return gradients;
}

void GradientSum::take_slice() {
  const torch::NoGradGuard no_grad;
  ++taken_;
  // An odd number: the next backward pass adds its gradients to those that are there.
  if (taken_ % 2 == 1) return;
  for (std::int64_t pairs = taken_ / 2; pairs % 2 == 0; pairs /= 2) {
    const Gradients earlier = std::move(waiting_.back());
    waiting_.pop_back();
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      at::Tensor& gradient = parameters_[index].mutable_grad();
      if (!gradient.defined())
        gradient = earlier[index];
      else if (earlier[index].defined())
        gradient.add_(earlier[index]);
    }
  }
  if (taken_ < slices_) waiting_.push_back(taken_out());
}

}  // namespace cogwheel::runs
