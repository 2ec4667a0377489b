#include "cogwheel/runs/training/gradient_exchange.h"

#include <utility>

namespace cogwheel::runs {

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

void GradientExchange::begin() {
  if (!sum_) return;
  for (std::size_t place = 0; place < learning_.size(); ++place)
    made_.on_made(optimizer_.parameters()[learning_[place]].value, [this, place] {
      slices_.complete(learning_[place]);
      send(place);
    });
}

void GradientExchange::send(std::size_t place) {
  sum_->ready(place, optimizer_.gradient(learning_[place]));
  // What others own is not needed here any more.
  if (moments_ != nullptr) optimizer_.parameters()[learning_[place]].value.mutable_grad().reset();
}

void GradientExchange::finish() {
  made_.forget();
  if (!sum_) return;
  for (std::size_t place = learning_.size(); place-- > 0;)
    if (!sum_->is_there(place)) send(place);
  if (moments_ == nullptr)
    sum_->finish();
  else
    optimizer_.take_own_gradients(sum_->finish_own());
}

}  // namespace cogwheel::runs
