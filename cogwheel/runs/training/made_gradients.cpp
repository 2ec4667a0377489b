#include "cogwheel/runs/training/made_gradients.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace cogwheel::runs {
namespace {

class WhenAccumulated : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit WhenAccumulated(std::function<void()> act) : act_(std::move(act)) {}
  void operator()(const torch::autograd::Variable&) override { act_(); }

 private:
  std::function<void()> act_;
};

}  // namespace

MadeGradients::~MadeGradients() { forget(); }

void MadeGradients::on_made(const at::Tensor& parameter, std::function<void()> act) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<WhenAccumulated>(std::move(act)));
  parameters_.push_back(parameter);
}

void MadeGradients::forget() {
  for (const at::Tensor& each : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(each, nullptr);
  parameters_.clear();
}

}  // namespace cogwheel::runs
