// Statistics of every head, from the same pass that gives a model's output.
#pragma once
#include "cogwheel/nn/head_statistics.h"
#include "cogwheel/nn/tap.h"

namespace cogwheel {

class HeadObserver {
 public:
  // Reads at the tap's places value, row_statistics and heads, of the passes that `tap` sees while this lives.
  explicit HeadObserver(Tap& tap);
  HeadObserver(const HeadObserver&) = delete;
  HeadObserver& operator=(const HeadObserver&) = delete;

  // Of the last pass, [layers][output heads].
  const StatisticsOfHeads& statistics() const { return statistics_; }

 private:
  void finish_layer(const at::Tensor& heads);

  at::Tensor value_, rows_;  // of the layer in work
  StatisticsOfHeads statistics_;
};

}  // namespace cogwheel
