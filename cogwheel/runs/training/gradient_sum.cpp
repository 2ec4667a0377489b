#include "cogwheel/runs/training/gradient_sum.h"

#include <torch/utils.h>

#include <utility>

namespace cogwheel::runs {

GradientSum::Gradients GradientSum::taken_out() {
  Gradients gradients;
  for (at::Tensor& parameter : parameters_) gradients.push_back(std::exchange(parameter.mutable_grad(), {}));
  return gradients;
}

void GradientSum::add_to(std::size_t parameter, const Gradients& earlier) {
  at::Tensor& gradient = parameters_[parameter].mutable_grad();
  if (!gradient.defined())
    gradient = earlier[parameter];
  else if (earlier[parameter].defined())
    gradient.add_(earlier[parameter]);
}

void GradientSum::take_slice() {
  const torch::NoGradGuard no_grad;
  ++taken_;
  if (taken_ == slices_) {  // all that wait are what the tree has beside the last ones
    for (std::size_t index = 0; index < parameters_.size(); ++index) complete(index);
    waiting_.clear();
    return;
  }
  // An odd number: the next backward pass adds its gradients to those that are there.
  if (taken_ % 2 == 1) return;
  for (std::int64_t pairs = taken_ / 2; pairs % 2 == 0; pairs /= 2) {
    const Gradients earlier = std::move(waiting_.back());
    waiting_.pop_back();
    for (std::size_t index = 0; index < parameters_.size(); ++index) add_to(index, earlier);
  }
  waiting_.push_back(taken_out());
}

void GradientSum::complete(std::size_t parameter) {
  if (complete_[parameter]) return;
  complete_[parameter] = true;
  const torch::NoGradGuard no_grad;
  for (auto earlier = waiting_.rbegin(); earlier != waiting_.rend(); ++earlier) {
    add_to(parameter, *earlier);
    (*earlier)[parameter].reset();
  }
}

}  // namespace cogwheel::runs
