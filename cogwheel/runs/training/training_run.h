// One training run of a task: a model, its optimiser and its place in the data. Bit-reproducible on the same machine,
// instruction set and number of threads; a run that is saved and loaded continues bit for bit as if uninterrupted.
//
// Several ranks (distributed/ranks.h) train one model: each goes through its share of the slices of a step, and all
// have the whole state after it, the bits of one rank. Ranks that share texts or heads (parallel.context,
// parallel.tensor) have the same slices. What every rank has to call is marked "collective".
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/runs/training/spike_watch.h"
#include "cogwheel/runs/training/step_report.h"

namespace cogwheel::distributed {
class Ranks;
}

namespace cogwheel::runs {

class BatchPrefetcher;
class DividedMoments;
class DividedWeights;
class GradientExchange;
class GradientSum;
class SafeTensorsFile;
class SharedSlices;
class Optimizer;
struct LearnedParameter;
class WeightAverage;

enum class TrainingStatus { finished, stopped, non_finite, spike };

// The loss, the gradient or a measure is NaN or infinite. The weights are still those before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

// The loss or the gradient of a step is beyond training.spike_deviations. The weights are still those before the step.
class LossSpike : public Error {
 public:
  using Error::Error;
};

struct TrainingHooks {
  std::function<void(const StepReport&)> report = {};  // every report_every steps, and at each evaluation
  // Every checkpoint_every steps, after checkpoint_minutes, at the end and when stopped.
  std::function<void()> checkpoint = {};
  std::function<void()> improved = {};                    // after the best evaluation so far, before `checkpoint`
  std::function<void(const ContinuedText&)> sample = {};  // every sample_every steps
  std::function<void(std::int64_t step)> returned = {};   // a run in a folder went back to the checkpoint of that step
  std::function<void(const std::string&)> warn = {};      // a line for the user
  const std::atomic<bool>* stop = nullptr;                // checked between steps and between their slices
};

// Throws UsageError where this machine has no such device or the environment names no engine, Error where there is too
// little memory: what the run would say, before anything is made. Of a completed configuration.
void expect_trainable(const RunConfig& config);

// Throws Error where the checkpoint holds weights alone, as those of imported models. Reads its header only.
void expect_resumable(const std::filesystem::path& checkpoint);

// Each with the first row and their number.
using LeftOutRows = std::set<std::pair<std::int64_t, std::int64_t>>;

class TrainingRun {
 public:
  // The task completes the configuration. The weights are initialised from training.seed. `ranks`, which outlive it:
  // null for one. Throws UsageError where they cannot share training.micro_batches, texts or heads equally.
  TrainingRun(const ModelOptions& model, const TrainingOptions& training, std::shared_ptr<const Task> task,
              const distributed::Ranks* ranks = nullptr);
  TrainingRun(TrainingRun&&) noexcept;
  TrainingRun& operator=(TrainingRun&&) noexcept;
  ~TrainingRun();

  // Collective. Trains to the last step, or until stopped, or until the loss is no longer finite or jumps: all ranks
  // return the same.
  TrainingStatus train(const TrainingHooks& hooks = {});

  // Goes on as if the steps before that one had been made, for who times a later phase; the weights stay.
  void skip_to(std::int64_t step);
  // Collective. Makes one step and returns its loss. Throws NonFiniteLoss or LossSpike and leaves weights and optimiser
  // unchanged. Where several ranks divide moments, the weights of others' stretches come during the next step;
  // the second waits for them.
  double step();
  void take_all_weights();
  // Collective. Measures over everything that the task evaluates; always in float32 and without dropout.
  MeasuredValues measure();
  // Collective. What a report shows of the model. Measures and this are of the averaged weights, where options().ema is
  // not 0.
  Inspection inspect(std::uint64_t seed);
  // The part of the configuration that decides the results: all but names and paths.
  RunConfig configuration() const;

  // Writes weights, moments, step and losses into one safetensors file, replaced atomically. Throws NonFiniteLoss, and
  // leaves the file unchanged, where a weight is not finite. Where ranks share heads or divide moments, the first one
  // writes while all others call `help_to_save`, from which it has their parts; between `load` and `take_from_first` it
  // writes alone, from what was loaded.
  void save(const std::filesystem::path& path) const;
  void help_to_save() const;
  // Throws Error where the file is damaged or of another configuration. Returns one sentence for each difference from
  // the machine that saved it (instruction set, threads): from there on the bits may differ. `may_differ`: keys of the
  // configuration that were changed since. Needs memory for one tensor beside the run's. Of several ranks the first one
  // loads.
  std::vector<std::string> load(const std::filesystem::path& path, const std::set<std::string>& may_differ = {});

  const distributed::Ranks& ranks() const { return *ranks_; }
  // Collective. Throws UsageError that names what is not the same on all ranks, of what the bits depend on: the
  // configuration, the data, the machine, the build.
  void expect_alike() const;
  // Collective. The state becomes that of the first rank. Where ranks share heads or divide moments each takes its part
  // of what was loaded; of a run that begins, what ranks have made from the seed is alike.
  void take_from_first();

  // Why `train` returned non_finite or spike.
  const std::string& problem() const { return problem_; }
  // The rows of the data that the next step reads, and rows whose batches are left out, now and in later checkpoints.
  std::pair<std::int64_t, std::int64_t> next_rows() const {
    return {next_place(progress_.place).rows, config_.training.batch};
  }
  void leave_out(const LeftOutRows& rows);

  const std::shared_ptr<torch::nn::Module>& model() const { return model_; }
  const ModelOptions& model_options() const { return config_.model; }
  const TrainingOptions& options() const { return config_.training; }
  const Task& task() const { return *task_; }
  std::int64_t steps_done() const { return progress_.steps_done; }
  std::int64_t tokens() const { return progress_.tokens; }
  double seconds() const { return progress_.seconds; }                        // of training steps
  double slices_seconds() const { return slices_seconds_; }                   // of which this process's slices took
  double evaluation_seconds() const { return progress_.evaluation_seconds; }  // of measures and statistics
  double last_train_loss() const { return progress_.last_train_loss; }
  // Measures of the last evaluation; after the last step, over everything that is evaluated. Empty before the first.
  const MeasuredValues& last_measured() const { return progress_.last_measured; }
  // The best value of the deciding measure in the curve so far.
  std::optional<double> best() const { return progress_.best; }

 private:
  // All that a step depends on besides weights and moments; a checkpoint has it.
  struct Progress {
    std::int64_t steps_done = 0, tokens = 0;
    DataPlace place;  // of the next batch, before what is left out there
    LeftOutRows left_out;
    double seconds = 0, evaluation_seconds = 0;
    double last_train_loss = std::numeric_limits<double>::quiet_NaN();
    MeasuredValues last_measured;
    std::optional<double> best;
    // Since the last report: the lines after a resume are those of an uninterrupted run.
    double loss_sum = 0, norm_sum = 0, waiting_seconds = 0, seconds_at_report = 0;
    double exchange_seconds = 0, slowest_seconds = 0;
    std::int64_t loss_count = 0, tokens_at_report = 0;
  };
  static nlohmann::json state_of(const Progress& progress, const SpikeWatch& watch);
  static Progress progress_from(const nlohmann::json& state, SpikeWatch& watch, const TrainingOptions& training,
                                const std::filesystem::path& path);

  // A tensor of a checkpoint, or this rank's part of it: a share of a parameter that ranks divide, or of what has a
  // number for each of its numbers; or a stretch of a moment.
  struct SavedTensor {
    enum class Held { whole, share, stretch };
    std::string name, parameter;
    at::Tensor value;
    Held held;
    std::vector<std::int64_t> sizes;  // of the whole
  };
  // In the order of names, after so many steps: what begins to learn later has no moments yet.
  std::vector<SavedTensor> saved_tensors(std::int64_t steps) const;
  // Of all ranks' parts, or, where a checkpoint was loaded that the others do not have yet, from there.
  at::Tensor whole(const SavedTensor& saved) const;
  // This rank's part of it.
  at::Tensor part_of(const SavedTensor& saved, const at::Tensor& whole) const;
  // Whether other ranks have parts of what a checkpoint holds.
  bool saves_together() const;
  // Collective: whether all weights of all ranks are. Throws NonFiniteLoss.
  void expect_finite_weights(const std::vector<SavedTensor>& tensors) const;
  // The first place from there on that is not left out.
  DataPlace next_place(DataPlace from) const;
  DataPlace after(const DataPlace& place) const;
  const Phase& phase_of(std::int64_t step) const;
  // Where the next step begins a phase, what was seen before says nothing of it.
  void begin_phase();
  // Nothing where it was stopped: everything is as before the step.
  std::optional<double> step(const std::atomic<bool>* stop);
  // The loss of all slices, whose gradients are then summed; nothing where it was stopped.
  std::optional<double> differentiate(const Batch& batch, const std::atomic<bool>* stop);
  // Of the slices of this rank, each times its share in the loss of the batch, up to the first that is not finite or to
  // where it was stopped; their gradients are summed.
  std::vector<double> losses_of_slices(const Batch& batch, const std::atomic<bool>* stop, GradientSum& sum,
                                       GradientExchange& exchange);
  void weights_have_come();
  // Seconds in which this rank has waited for weights that others update.
  double waited_for_weights() const;
  // Collective, where it continues on any rank: of the averaged weights, or nothing where none asks for it.
  void continue_prompts(const TrainingHooks& hooks);
  // How many neighbouring ranks share the slices of this one, how many slices those are, and the first.
  std::int64_t ranks_of_slice() const;
  std::int64_t slices_of_a_rank() const;
  std::int64_t first_slice() const;
  // Collective of the ranks that share its slices.
  double sum_of_shared(double own) const;
  bool is_measured_step() const;
  static void expect_finite(double value, std::string_view what, std::int64_t step);  // throws NonFiniteLoss
  StepReport make_report();
  void evaluate(StepReport& report);
  MeasuredValues measured(EvaluationPart part, nn::StatisticsOfHeads* heads = nullptr);

  std::shared_ptr<const Task> task_;
  const distributed::Ranks* ranks_;
  std::shared_ptr<const SharedSlices> shared_;  // null: each rank has slices of its own
  std::unique_ptr<DividedWeights> divided_;
  std::unique_ptr<DividedMoments> moments_;        // null: each rank updates all of its weights
  std::shared_ptr<const SafeTensorsFile> loaded_;  // a checkpoint that other ranks do not have yet
  RunConfig config_;                               // completed by the task
  // Behind pointers, so that this header needs none of libtorch's, which take ten times as long to compile.
  std::shared_ptr<torch::nn::Module> model_;
  std::unique_ptr<BatchPrefetcher> prefetcher_;  // null: of a model on the CPU, which has nothing to wait for
  std::vector<Phase> phases_;
  std::vector<LearnedParameter> learned_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // null: none
  SpikeWatch watch_;
  Progress progress_;
  bool average_waits_ = false;     // for the weights of the last step
  bool wants_checkpoint_ = false;  // by this rank's clock, and after a step by the first one's
  double slices_seconds_ = 0;      // in this process
  double update_over_weight_ = 0;  // of the last step that was measured
  mutable std::optional<std::map<std::string, std::string>> tokenizer_metadata_;  // once one was saved
  std::string problem_;
};

}  // namespace cogwheel::runs
