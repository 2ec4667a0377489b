#include "cogwheel/runs/training/gradient_exchange.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <utility>

namespace cogwheel::runs {
namespace {

class WhenAccumulated : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit WhenAccumulated(std::function<void(const at::Tensor&)> act) : act_(std::move(act)) {}
  void operator()(const torch::autograd::Variable& parameter) override { act_(parameter); }

 private:
  std::function<void(const at::Tensor&)> act_;
};

}  // namespace

GradientExchange::GradientExchange(const distributed::Ranks& ranks, Optimizer& optimizer, GradientSum& slices,
                                   const std::string& what, const SharedSlices* shared, const DividedWeights& divided,
                                   const DividedMoments* moments)
    : optimizer_(optimizer), slices_(slices), learning_(optimizer.learning()), moments_(moments) {
  if (ranks.count() == 1 && moments == nullptr) return;
  std::vector<distributed::SumOverRanks::Adders> adders{{&ranks.all()}};
  if (shared != nullptr)
    adders = {{&ranks.all(), shared->all().count()}, {&shared->same_heads(), shared->ranks_of_text()}};
  std::vector<distributed::SumOverRanks::Summand> gradients;
  for (const std::size_t index : learning_) {
    const Optimizer::Parameter& parameter = optimizer.parameters()[index];
    gradients.push_back({parameter.value.numel(), divided.contains(parameter.name) ? std::size_t{1} : 0});
  }
  distributed::SumOverRanks::Sums sums;
  if (moments != nullptr) sums = {.stay_with_owners = true, .unit = DividedMoments::unit};
  sum_.emplace(std::move(adders), gradients, what, sums);
}

GradientExchange::~GradientExchange() { end_hooks(); }

void GradientExchange::begin() {
  if (!sum_) return;
  for (std::size_t place = 0; place < learning_.size(); ++place) {
    const at::Tensor& parameter = optimizer_.parameters()[learning_[place]].value;
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<WhenAccumulated>([this, place](const at::Tensor& made) {
          slices_.complete(learning_[place]);
          send(place, made.grad());
        }));
    hooked_.push_back(parameter);
  }
}

void GradientExchange::end_hooks() {
  for (const at::Tensor& parameter : hooked_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  hooked_.clear();
}

void GradientExchange::send(std::size_t place, const at::Tensor& gradient) {
  sum_->ready(place, gradient);
  // What others own is not needed here any more.
  if (moments_ != nullptr) optimizer_.parameters()[learning_[place]].value.mutable_grad().reset();
}

void GradientExchange::finish() {
  end_hooks();
  if (!sum_) return;
  if (moments_ == nullptr) return sum_->finish(optimizer_.gradients());
  for (std::size_t place = learning_.size(); place-- > 0;)
    if (!sum_->is_there(place)) send(place, optimizer_.gradient(learning_[place]));
  optimizer_.take_own_gradients(sum_->finish_own());
}

}  // namespace cogwheel::runs
