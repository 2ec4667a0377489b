// The progress report of a run.
#pragma once
#include <cstdint>
#include <string>

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
  double tokens_per_second = 0;   // since the previous report
  double gradient_norm = 0;       // before clipping, mean since the previous report
  double update_over_weight = 0;  // the norm of this step's update of all weights over theirs
  double waiting_seconds = 0;     // for batches, since the previous report; part of `seconds`
  // Of several ranks, since the previous report: what the exchange of gradients added to the seconds of the slowest
  // rank of each step, and these, of its slices alone. 0 of one rank.
  double exposed_communication_seconds = 0, slowest_rank_seconds = 0;
  std::string phase = {};  // of the last step (Task::phases); the means are of its steps alone
  // At an evaluation, the task's measures for curves (over TrainingOptions::curve_tokens), and statistics of the heads
  // on the first items, up to 4,096 tokens.
  MeasuredValues measured = {};
  nn::StatisticsOfHeads heads = {};
  // After the last step, the measures over everything that is evaluated, if curves use less or the task measures more
  // at the end.
  MeasuredValues final_measured = {};
};

// One line of samples.jsonl.
struct ContinuedText {
  std::int64_t step = 0;
  std::string prompt, text;  // the text without the prompt
};

}  // namespace cogwheel::runs
