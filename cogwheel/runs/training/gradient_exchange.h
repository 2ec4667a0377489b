// The sum of gradients over ranks, which begins while the last slice of a step still goes backward.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/distributed/sum_over_ranks.h"
#include "cogwheel/runs/training/divided_moments.h"
#include "cogwheel/runs/training/divided_weights.h"
#include "cogwheel/runs/training/gradient_sum.h"
#include "cogwheel/runs/training/made_gradients.h"
#include "cogwheel/runs/training/optimizer.h"
#include "cogwheel/runs/training/shared_slices.h"

namespace cogwheel::runs {

class GradientExchange {
 public:
  // Of one step. `slices` adds this rank's own; `what` is for LostRanks; `shared`: the ranks that have the same slices,
  // each of which has a part of the gradient, and of `divided` weights its share; null: every rank has slices of its
  // own. `moments`: null where each rank updates all weights. With one rank nothing is exchanged.
  GradientExchange(const distributed::Ranks& ranks, Optimizer& optimizer, GradientSum& slices, const std::string& what,
                   const SharedSlices* shared, const DividedWeights& divided, const DividedMoments* moments);

  // From here on a parameter's gradient is sent when a backward pass has made it: before that of the last slice.
  void begin();
  // Collective: the gradients of what learns become their sums over all slices of all ranks; where ranks divide
  // moments, the optimizer gets those of this rank's stretches. What a rank has not made, because it stopped or met a
  // NaN, goes as it is: ranks then agree not to use it.
  void finish();

  // Seconds in which the backward pass waited for other ranks.
  double waited() const { return sum_ ? sum_->waited() : 0; }

 private:
  // The gradient of a parameter, by its place in `learning_`, is complete.
  void send(std::size_t place);

  Optimizer& optimizer_;
  GradientSum& slices_;
  std::vector<std::size_t> learning_;  // indices of the optimizer's parameters
  const DividedMoments* moments_;
  std::optional<distributed::SumOverRanks> sum_;
  MadeGradients made_;
};

}  // namespace cogwheel::runs
