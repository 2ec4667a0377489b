// The progress report of a run.
#pragma once
#include <cstdint>

#include "cogwheel/nn/hooks/head_statistics.h"
#include "cogwheel/runs/measure.h"

namespace cogwheel::runs {

// One line of metrics.jsonl.
struct StepReport {
  std::int64_t step = 0;  // steps done
  std::int64_t steps = 0;
  std::int64_t tokens = 0;  // trained on so far
  double seconds = 0;       // spent on training steps so far, without evaluation and files
  double train_loss = 0;    // mean since the previous report
  double learning_rate = 0;
  double tokens_per_second = 0;  // since the previous report
  // At an evaluation, the task's measures for curves (over TrainingOptions::curve_tokens), and statistics of the heads
  // on the first items, up to 4,096 tokens.
  MeasuredValues measured = {};
  nn::StatisticsOfHeads heads = {};
  // After the last step, the measures over everything that is evaluated, if curves use less or the task measures more
  // at the end.
  MeasuredValues final_measured = {};
};

}  // namespace cogwheel::runs
