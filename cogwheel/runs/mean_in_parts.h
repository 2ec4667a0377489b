// Measures as means over many items, part by part.
#pragma once
#include <functional>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/hooks/head_statistics.h"
#include "cogwheel/runs/batch.h"

namespace cogwheel::distributed {
class Ranks;
}

namespace cogwheel::runs {

// While it exists, `mean_in_parts` on this thread measures the parts of its rank alone and takes the others' numbers
// from them: collective, with the result of one rank.
class PartsOfRanks {
 public:
  explicit PartsOfRanks(const distributed::Ranks& ranks);
  ~PartsOfRanks();
  PartsOfRanks(const PartsOfRanks&) = delete;
  PartsOfRanks& operator=(const PartsOfRanks&) = delete;

 private:
  const distributed::Ranks* before_;
};

struct PartialMeans {
  std::vector<double> means;
  double weight = 0;              // of this part in the mean
  std::vector<double> sums = {};  // counts, which are added as they are
};

// The weighted means of `measure` over the parts of `all`, and after them its sums; cut along the first dimension into
// parts of up to 4,096 tokens, whatever the training batch, so that every run sums in the same order. What `measure`
// keeps elsewhere is of the parts of this rank alone. Unless `heads` is null, it receives the statistics of the model's
// heads on the first part, which the first rank has.
std::vector<double> mean_in_parts(const Batch& all, nn::StatisticsOfHeads* heads,
                                  const std::function<PartialMeans(const Batch&, const nn::ForwardContext&)>& measure);

}  // namespace cogwheel::runs
