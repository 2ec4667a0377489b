#include "cogwheel/runs/mean_in_parts.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/nn/hooks/head_observer.h"

namespace cogwheel::runs {
namespace {

thread_local const distributed::Ranks* sharing = &distributed::one_rank;

}  // namespace

PartsOfRanks::PartsOfRanks(const distributed::Ranks& ranks) : before_(std::exchange(sharing, &ranks)) {}
PartsOfRanks::~PartsOfRanks() { sharing = before_; }

std::vector<double> mean_in_parts(const Batch& all, nn::StatisticsOfHeads* heads,
                                  const std::function<PartialMeans(const Batch&, const nn::ForwardContext&)>& measure) {
  constexpr std::int64_t tokens_at_once = 4096;
  const torch::NoGradGuard no_grad;
  const std::int64_t count = all.inputs.size(0), tokens = all.inputs.size(1);
  const std::int64_t at_once = std::max<std::int64_t>(1, tokens_at_once / tokens);
  const std::int64_t parts = (count + at_once - 1) / at_once;
  // Of the parts of this rank: the weight of each and how many means it has, these, and its sums.
  std::vector<double> measured;
  for (std::int64_t index = sharing->rank(); index < parts; index += sharing->count()) {
    const std::int64_t first = index * at_once, last = std::min(first + at_once, count);
    nn::Hooks hooks;
    std::optional<nn::HeadObserver> observer;
    if (heads != nullptr && first == 0) observer.emplace(hooks);
    Batch some{all.inputs.slice(0, first, last), all.targets.slice(0, first, last), (last - first) * tokens};
    if (all.positions.defined()) some.positions = all.positions.slice(0, first, last);
    const PartialMeans part = measure(some, {.hooks = observer ? &hooks : nullptr});
    if (observer) *heads = observer->statistics();
    measured.push_back(part.weight);
    measured.push_back(static_cast<double>(part.means.size()));
    for (const std::vector<double>* values : {&part.means, &part.sums})
      measured.insert(measured.end(), values->begin(), values->end());
  }
  const std::vector<std::vector<double>> of_ranks = sharing->gathered(measured, "measures");
  if (parts == 0) return {};
  // The first rank has the first part, and ⌈parts / ranks⌉ of them.
  const std::int64_t of_first = (parts + sharing->count() - 1) / sharing->count();
  const std::size_t numbers = of_ranks.front().size() / static_cast<std::size_t>(of_first);
  const auto means = static_cast<std::size_t>(of_ranks.front().at(1));
  std::vector<double> sums(numbers - 2);
  double weight = 0;
  for (std::int64_t index = 0; index < parts; ++index) {
    const std::vector<double>& there = of_ranks.at(static_cast<std::size_t>(index % sharing->count()));
    const std::size_t place = static_cast<std::size_t>(index / sharing->count()) * numbers;
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += there.at(place + 2 + i) * (i < means ? there.at(place) : 1);
    weight += there.at(place);
  }
  for (std::size_t i = 0; i < means; ++i) sums[i] /= weight;
  return sums;
}

}  // namespace cogwheel::runs
