// What a run says of itself as it goes.
#pragma once
#include <cstdint>
#include <optional>

#include "cogwheel/nn/head_statistics.h"

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
  // Where it was evaluated, over the windows of curves (TrainingOptions::curve_tokens), and what the heads do with the
  // first of them, up to 4,096 tokens.
  std::optional<double> held_out_loss;
  StatisticsOfHeads heads = {};
  std::optional<double> final_held_out_loss = {};  // after the last step, over every window, where curves have fewer
};

}  // namespace cogwheel
