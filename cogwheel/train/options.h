// How a model is trained: AdamW under a linear warm-up and a cosine decay.
#pragma once
#include <cstdint>
#include <string>

namespace cogwheel {

struct TrainingOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 12;  // windows per step
  double learning_rate = 1e-3;
  double final_learning_rate = 1e-4;
  std::int64_t warm_up = 100;  // steps
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.1;            // only of tensors with two dimensions or more
  double clip = 1.0;                    // largest global norm of the gradient; 0: none
  std::uint64_t seed = 1337;            // of the weights, of the data order and of dropout
  std::string precision = "fp32";       // or "bf16": of the matrix products of training steps; all else stays fp32
  std::int64_t report_every = 10;       // steps
  std::int64_t evaluate_every = 250;    // steps; 0: only after the last one
  std::int64_t checkpoint_every = 500;  // steps; 0: only after the last one
};

// Throws UsageError naming the first option that cannot be: "training.steps: expected …, got …".
void check(const TrainingOptions& options);

// Of a step, counted from 0: warm-up from learning_rate/(warm_up + 1), then a half cosine down to final_learning_rate
// at step `steps`.
double learning_rate(const TrainingOptions& options, std::int64_t step);

}  // namespace cogwheel
