// What a run says of itself as it goes.
#pragma once
#include <cstdint>

#include "cogwheel/nn/head_statistics.h"
#include "cogwheel/train/measure.h"

namespace cogwheel {

// A line of metrics.jsonl.
struct StepReport {
  std::int64_t step = 0;  // steps done
  std::int64_t steps = 0;
  std::int64_t tokens = 0;  // trained on so far
  double seconds = 0;       // spent on training steps so far; evaluation and files excluded
  double train_loss = 0;    // mean since the report before
  double learning_rate = 0;
  double tokens_per_second = 0;  // since the report before
  // Where it was evaluated, what the task measures in curves (TrainingOptions::curve_tokens), and what the heads do
  // with the first items, up to 4,096 tokens.
  MeasuredValues measured = {};
  StatisticsOfHeads heads = {};
  // After the last step, of everything that is evaluated, where curves see less, or the task measures more at the end.
  MeasuredValues final_measured = {};
};

}  // namespace cogwheel
