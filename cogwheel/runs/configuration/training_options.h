// How a model is trained: its optimiser, the schedule of the learning rate, and what is written on the way.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/core/range.h"

namespace cogwheel::runs {

struct TrainingOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 12;         // windows per step
  std::int64_t micro_batches = 1;  // slices in which a step goes through its batch, a power of two: memory of one slice
  std::int64_t parallel_context = 1;     // ranks that share each text, a power of two
  std::int64_t parallel_tensor = 1;      // ranks that share heads, hidden units and vocabulary
  bool parallel_divide_moments = false;  // each rank has the moments of a part of the weights, and updates that
  std::int64_t recompute = 0;       // activations of every k-th block are made again in the backward pass; 0: of none
  std::string optimizer = "adamw";  // or "muon": of the hidden matrices; AdamW of all else
  double learning_rate = 1e-3;
  double final_learning_rate = 1e-4;
  std::string schedule = "cosine";  // or "linear", or "wsd": warm-up, constant, decay
  std::int64_t warm_up = 100;       // steps
  double decay = 0.2;               // of wsd: the share of the steps, the last ones, in which the rate falls
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double momentum = 0.95;                // of muon
  double weight_decay = 0.1;             // only of tensors with two dimensions or more
  std::int64_t base_width = 0;           // of the model whose rates these are (width_scaling.h); 0: of this one
  double clip = 1.0;                     // largest global norm of the gradient; 0: none
  std::vector<std::string> frozen = {};  // parts of the model that stay as they are: names of parameters, with * and ?
  double ema = 0;              // decay of an exponential moving average of the weights, which is what is used; 0: none
  std::uint64_t seed = 1337;   // of the initial weights, the data order and dropout
  std::string device = "cpu";  // where the model is and learns, as libtorch names it: cuda, cuda:1, mps, xpu
  std::string precision = "fp32";       // or "bf16": of the matrix products of training steps; all else stays fp32
  std::int64_t report_every = 10;       // steps
  std::int64_t evaluate_every = 250;    // steps; 0: only after the last one
  std::int64_t curve_tokens = 0;        // held-out tokens in every evaluation but the last; 0: all
  std::int64_t checkpoint_every = 500;  // steps; 0: only after the last one
  double checkpoint_minutes = 30;       // at most between two checkpoints, as soon as a step is done; 0: no limit
  std::int64_t keep_checkpoints = 2;    // the newest so many
  bool keep_best = false;               // also the one of the best evaluation
  std::int64_t sample_every = 0;        // steps between samples of the prompts; 0: none
  std::vector<std::string> prompts = {};
  double spike_deviations = 0;     // a loss or gradient so many robust deviations above its median is a spike; 0: none
  std::int64_t spike_returns = 3;  // how many spikes send a run back to its last checkpoint before it ends

  bool multiplies_bfloat16() const { return precision == "bf16"; }
};

// The allowed range of each. Even at the maxima the number of tokens fits into 64 bits.
inline constexpr Range<std::int64_t> steps_range{1, 100'000'000}, batch_range{1, 65'536};
inline constexpr Range<std::int64_t> micro_batches_range{1, 65'536}, kept_range{1, 1000}, base_width_range{0, 1 << 20};
inline constexpr Range<std::int64_t> parallel_range{1, 1024};
inline constexpr Range<double> learning_rate_range{.min = 0, .max = 1e30, .min_excluded = true};

// The values of `optimizer` and `schedule`.
const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();

// Throws UsageError that names the first invalid option: "training.steps: expected …, got …".
void check(const TrainingOptions& options);

// The steps, counted from 1 up to `until`, after which a run reports: every report_every steps, at each evaluation, and
// after the last one.
std::vector<std::int64_t> reported_steps(const TrainingOptions& options, std::int64_t until);
// Whether something that happens every `every` steps (0: never) and at the end happens after step `step`.
bool is_due(const TrainingOptions& options, std::int64_t every, std::int64_t step);

// The learning rate of a step, counted from 0: warm-up from learning_rate/(warm_up + 1), then down to
// final_learning_rate at step `steps`: along a half cosine, a line, or, of wsd, only in the last `decay` of all steps,
// along 1 − √progress (Hägele et al., "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations",
// 2024, section 4).
double learning_rate(const TrainingOptions& options, std::int64_t step);

}  // namespace cogwheel::runs
