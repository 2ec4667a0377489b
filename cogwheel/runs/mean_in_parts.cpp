#include "cogwheel/runs/mean_in_parts.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>

#include "cogwheel/nn/hooks/head_observer.h"

namespace cogwheel::runs {

std::vector<double> mean_in_parts(const Batch& all, nn::StatisticsOfHeads* heads,
                                  const std::function<PartialMeans(const Batch&, const nn::ForwardContext&)>& measure) {
  constexpr std::int64_t tokens_at_once = 4096;
  const torch::NoGradGuard no_grad;
  const std::int64_t count = all.inputs.size(0), tokens = all.inputs.size(1);
  const std::int64_t at_once = std::max<std::int64_t>(1, tokens_at_once / tokens);
  std::vector<double> sums;
  double weight = 0;
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t last = std::min(first + at_once, count);
    nn::Hooks hooks;
    std::optional<nn::HeadObserver> observer;
    if (heads != nullptr && first == 0) observer.emplace(hooks);
    Batch some{all.inputs.slice(0, first, last), all.targets.slice(0, first, last), (last - first) * tokens};
    if (all.positions.defined()) some.positions = all.positions.slice(0, first, last);
    const PartialMeans part = measure(some, {.hooks = observer ? &hooks : nullptr});
    if (observer) *heads = observer->statistics();
    sums.resize(part.means.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.means[i] * part.weight;
    weight += part.weight;
  }
  for (double& sum : sums) sum /= weight;
  return sums;
}

}  // namespace cogwheel::runs
