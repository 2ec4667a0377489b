// One training run: a model, its optimiser and its place in the data. Bit-reproducible on the same machine,
// instruction set and number of threads; a run that is saved and loaded goes on bit for bit as if it had not been.
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
#include "cogwheel/data/dataset.h"
#include "cogwheel/models/language_model_options.h"
#include "cogwheel/train/options.h"
#include "cogwheel/train/run_config.h"
#include "cogwheel/train/step_report.h"

namespace cogwheel {

class AdamW;
class LanguageModel;
struct Windows;

enum class TrainingStatus { finished, stopped, non_finite };

// The loss or the gradient is NaN or infinite: the weights are still those before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

struct TrainingHooks {
  std::function<void(const StepReport&)> report;  // every report_every steps, and wherever held-out loss is known
  std::function<void()> checkpoint;               // every checkpoint_every steps, at the end and when stopped
  const std::atomic<bool>* stop = nullptr;        // looked at between steps
};

class TrainingRun {
 public:
  // `model.vocabulary` is taken from the data where it is 0. The weights are initialised from training.seed.
  TrainingRun(LanguageModelOptions model, const TrainingOptions& training, std::shared_ptr<const Dataset> data);
  TrainingRun(TrainingRun&&) noexcept;
  TrainingRun& operator=(TrainingRun&&) noexcept;
  ~TrainingRun();

  // Up to the last step, or until stopped, or until the loss is no longer finite.
  TrainingStatus train(const TrainingHooks& hooks = {});

  // One step; its loss. Throws NonFiniteLoss, leaving weights and optimiser as they were.
  double step();
  // Over all non-overlapping windows of the held-out part, nats per token; in float32 and without dropout, whatever the
  // training does.
  double held_out_loss();
  // What decides the numbers of this run: all of a configuration but names and places.
  RunConfig configuration() const;

  // Weights, moments, step and losses in one safetensors file, replaced as a whole. Throws NonFiniteLoss, and leaves
  // the file as it was, where a weight is not finite.
  void save(const std::filesystem::path& path) const;
  // Throws Error where the file is damaged or of another configuration. Returns what differs from the machine that
  // saved it (instruction set, threads), one sentence each: from there on the bits may differ.
  std::vector<std::string> load(const std::filesystem::path& path);

  // Why `train` came back non_finite.
  const std::string& problem() const { return problem_; }

  LanguageModel& model() { return *model_; }
  const LanguageModel& model() const { return *model_; }
  const TrainingOptions& options() const { return options_; }
  std::int64_t steps_done() const { return steps_done_; }
  std::int64_t tokens() const;
  double seconds() const { return seconds_; }                        // of training steps
  double evaluation_seconds() const { return evaluation_seconds_; }  // of held-out losses and statistics
  double last_train_loss() const { return last_train_loss_; }
  // After the last step, over every window.
  std::optional<double> last_held_out_loss() const { return last_held_out_loss_; }
  std::optional<double> best_held_out_loss() const { return best_held_out_loss_; }

 private:
  StepReport make_report();
  void evaluate(StepReport& report);
  // The mean over windows; in `heads`, where it is not null, what the heads do with the first of them.
  double mean_loss(const Windows& windows, StatisticsOfHeads* heads = nullptr);

  std::shared_ptr<const Dataset> data_;
  TrainingOptions options_;
  // Behind pointers, so that this header does without libtorch's, which take ten times as long to compile.
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::int64_t steps_done_ = 0;
  double seconds_ = 0, evaluation_seconds_ = 0;
  double last_train_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> last_held_out_loss_, best_held_out_loss_;
  // Since the last report; part of the checkpoint, so that the lines after a resume are those of an unbroken run.
  double loss_sum_ = 0, seconds_at_report_ = 0;
  std::int64_t loss_count_ = 0;
  std::string problem_;
};

// Training steps per second of this model on this machine, from as many steps as fit into `seconds`, two at least,
// after one to warm up. Nothing of it remains.
double measure_steps_per_second(const LanguageModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Dataset> data, double seconds = 2.0);

}  // namespace cogwheel
