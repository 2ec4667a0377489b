// Statistics of every head, from the same pass that computes a model's output.
#pragma once
#include "cogwheel/nn/hooks/head_statistics.h"
#include "cogwheel/nn/hooks/hooks.h"

namespace cogwheel::nn {

class HeadObserver {
 public:
  // Reads values, statistics of rows and outputs of heads in the passes with `hooks`, while this object exists.
  explicit HeadObserver(Hooks& hooks);
  HeadObserver(const HeadObserver&) = delete;
  HeadObserver& operator=(const HeadObserver&) = delete;

  // The statistics of the last pass, [layers][output heads].
  const StatisticsOfHeads& statistics() const { return statistics_; }

 private:
  void finish_layer(const at::Tensor& heads);

  at::Tensor value_, rows_, lambda_;  // of the current layer
  StatisticsOfHeads statistics_;
};

}  // namespace cogwheel::nn
