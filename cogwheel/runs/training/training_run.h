// One training run of a task: a model, its optimiser and its place in the data. Bit-reproducible on the same machine,
// instruction set and number of threads; a run that is saved and loaded continues bit for bit as if uninterrupted.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::runs {

class AdamW;
class WeightAverage;

enum class TrainingStatus { finished, stopped, non_finite };

// The loss, the gradient or a measure is NaN or infinite. The weights are still those before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

struct TrainingHooks {
  std::function<void(const StepReport&)> report;  // every report_every steps, and at each evaluation
  std::function<void()> checkpoint;               // every checkpoint_every steps, at the end and when stopped
  const std::atomic<bool>* stop = nullptr;        // checked between steps
};

// Throws UsageError where this machine has no such device or the environment names no engine, Error where there is too
// little memory: what the run would say, before anything is made. Of a completed configuration.
void expect_trainable(const RunConfig& config);

// Throws Error where the checkpoint holds weights alone, as those of imported models. Reads its header only.
void expect_resumable(const std::filesystem::path& checkpoint);

class TrainingRun {
 public:
  // The task completes the configuration. The weights are initialised from training.seed.
  TrainingRun(const ModelOptions& model, const TrainingOptions& training, std::shared_ptr<const Task> task);
  TrainingRun(TrainingRun&&) noexcept;
  TrainingRun& operator=(TrainingRun&&) noexcept;
  ~TrainingRun();

  // Trains to the last step, or until stopped, or until the loss is no longer finite.
  TrainingStatus train(const TrainingHooks& hooks = {});

  // Makes one step and returns its loss. Throws NonFiniteLoss and leaves weights and optimiser unchanged.
  double step();
  // Measures over everything that the task evaluates; always in float32 and without dropout.
  MeasuredValues measure();
  // What a report shows of the model. Measures and this are of the averaged weights, where options().ema is not 0.
  Inspection inspect(std::uint64_t seed);
  // The part of the configuration that decides the results: all but names and paths.
  RunConfig configuration() const;

  // Writes weights, moments, step and losses into one safetensors file, replaced atomically. Throws NonFiniteLoss, and
  // leaves the file unchanged, where a weight is not finite.
  void save(const std::filesystem::path& path) const;
  // Throws Error where the file is damaged or of another configuration. Returns one sentence for each difference from
  // the machine that saved it (instruction set, threads): from there on the bits may differ.
  std::vector<std::string> load(const std::filesystem::path& path);

  // Why `train` returned non_finite.
  const std::string& problem() const { return problem_; }

  const std::shared_ptr<torch::nn::Module>& model() const { return model_; }
  const ModelOptions& model_options() const { return config_.model; }
  const TrainingOptions& options() const { return config_.training; }
  const Task& task() const { return *task_; }
  std::int64_t steps_done() const { return steps_done_; }
  std::int64_t tokens() const { return tokens_; }
  double seconds() const { return seconds_; }                        // of training steps
  double evaluation_seconds() const { return evaluation_seconds_; }  // of measures and statistics
  double last_train_loss() const { return last_train_loss_; }
  // Measures of the last evaluation; after the last step, over everything that is evaluated. Empty before the first.
  const MeasuredValues& last_measured() const { return last_measured_; }
  // The best value of the deciding measure in the curve so far.
  std::optional<double> best() const { return best_; }

 private:
  StepReport make_report();
  void evaluate(StepReport& report);
  MeasuredValues measured(EvaluationPart part, nn::StatisticsOfHeads* heads = nullptr);

  std::shared_ptr<const Task> task_;
  RunConfig config_;  // completed by the task
  // Behind pointers, so that this header needs none of libtorch's, which take ten times as long to compile.
  std::shared_ptr<torch::nn::Module> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // null: none
  std::int64_t steps_done_ = 0, tokens_ = 0;
  double seconds_ = 0, evaluation_seconds_ = 0;
  double last_train_loss_ = std::numeric_limits<double>::quiet_NaN();
  MeasuredValues last_measured_;
  std::optional<double> best_;
  // Since the last report; part of the checkpoint, so that the lines after a resume are those of an uninterrupted run.
  double loss_sum_ = 0, seconds_at_report_ = 0;
  std::int64_t loss_count_ = 0, tokens_at_report_ = 0;
  std::string problem_;
};

// Training steps per second of this model on this machine, from as many steps as fit into `seconds`, at least two,
// after one to warm up. The trained model is discarded.
double measure_steps_per_second(const ModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Task> task, double seconds = 2.0);

// How many times as long a step takes in the precision that is asked for as in the default one: of two steps of each,
// of up to six where they take little time; one model at a time. 1 for the default one, and elsewhere than on the CPU,
// where nothing is measured.
double cost_of_precision(const ModelOptions& model, const TrainingOptions& training,
                         const std::shared_ptr<const Task>& task);
// In one line, what the user should know of such a cost; empty: nothing.
std::string precision_note(const std::string& precision, double cost);

}  // namespace cogwheel::runs
