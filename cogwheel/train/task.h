// What is learned, as a value: a model, batches, a loss, measures, and what there is to see of a trained model. The
// loop of training, checkpoints, matching, tuning, comparison and report know tasks and measures, and nothing of what
// these are about. tasks/ has one file for each; tasks/tasks.def lists them.
//
// Free of libtorch's headers, so that whoever plans or reports does without.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/nn/head_statistics.h"
#include "cogwheel/storage/run_folder.h"
#include "cogwheel/train/inspection.h"
#include "cogwheel/train/measure.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace cogwheel {

struct Batch;

// How a task is spoken of; recorded in results, so that a report needs no task.
struct TaskDescription {
  std::string name;     // as in --task
  std::string summary;  // one line
  std::string item;     // what one token of it is: character, byte, symbol
  std::string data;     // a sentence on what is drawn, of a task without a text
  // "<mechanism> <does_better> than <baseline>", of one mechanism and of several.
  std::string does_better = "does better", do_better = "do better";
  std::string sampling = {};           // of samples, with a comma before it: ", temperature 0.8"
  std::vector<Measure> measures = {};  // the first decides a comparison

  const Measure& decisive() const { return measures.front(); }
  bool has(std::string_view measure) const {
    return std::any_of(measures.begin(), measures.end(), [&](const Measure& each) { return each.name == measure; });
  }
  bool operator==(const TaskDescription&) const = default;
};

// What is learned from: its size, as a comparison records it. Counts are of items.
struct DataFacts {
  std::string name;
  std::string tokenizer;  // what one token is: TaskDescription::item
  std::string sha256 = {};
  std::vector<std::string> text = {};  // files and folders as given; none: Python's standard library, or no text
  std::int64_t byte_limit = 0;         // where the text was cut; 0: nowhere
  std::int64_t bytes = 0;              // 0: no text
  std::int64_t vocabulary = 0;
  std::int64_t train_tokens = 0;  // 0: as many as are drawn
  std::int64_t held_out_tokens = 0;
  std::int64_t evaluated_tokens = 0;  // of the held-out part, from its beginning: what the result is judged on
  std::int64_t curve_tokens = 0;      // of those, spread evenly: what curves are made of
};

enum class EvaluationPart {
  curve,  // what training.curve_tokens leaves of the held-out part: the same items whoever asks
  whole
};

class Task {
 public:
  virtual ~Task() = default;

  virtual const TaskDescription& description() const = 0;
  // Of a model with these options.
  virtual DataFacts data(const LanguageModelOptions& model, const TrainingOptions& training) const = 0;

  // Fills in what the task or its data decides of a configuration: vocabulary, hashes, its own options with their
  // defaults. What a run records of itself. Throws UsageError for what does not fit.
  virtual RunConfig completed(RunConfig config) const = 0;
  // What whoever uses the model later needs beside its weights, such as a tokenizer; names are of run_files().
  virtual std::vector<RunFile> assets() const { return {}; }
  // What tells a later reader whether the data has changed; files of the same folder.
  virtual std::vector<RunFile> records() const { return {}; }
  // What of the data was not taken, in one line; empty: nothing.
  virtual std::string left_out() const { return {}; }

  // Of completed options; weights are not filled.
  virtual std::shared_ptr<torch::nn::Module> make_model(const LanguageModelOptions& options) const = 0;
  virtual void initialize(torch::nn::Module& model, std::uint64_t seed) const = 0;

  // The batch of a step, counted from 0: of training.seed and the step alone, so that runs that share a seed share
  // their data, and a run that resumes needs no state but its step.
  virtual Batch batch(const torch::nn::Module& model, const TrainingOptions& training, std::int64_t step) const = 0;
  // A scalar to differentiate. The same seed drops the same elements.
  virtual at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const = 0;

  // Measures, but those that are at_end_only in curves; in float32 and without dropout. In `heads`, where it is not
  // null, what the heads do with the first items.
  virtual MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                                  StatisticsOfHeads* heads) const = 0;
  // Whether curves see less than the whole.
  virtual bool curve_is_part(const torch::nn::Module& model, const TrainingOptions& training) const = 0;

  // The same draws for every model with the same seed. Mechanism and seed are the caller's to fill in.
  virtual Inspection inspect(torch::nn::Module& model, std::uint64_t seed) const = 0;

  // The same task, of which at most so many held-out items are evaluated, a multiple of the context.
  virtual std::shared_ptr<const Task> limited(std::int64_t evaluated_tokens) const = 0;
  // The same task for choosing learning rates: never trains on what it evaluates, nor sees the held-out part.
  virtual std::shared_ptr<const Task> for_tuning() const = 0;
};

// Learnable numbers of the task's model, a tied head counted once. Allocates nothing.
std::int64_t parameter_count(const Task& task, const LanguageModelOptions& options);

}  // namespace cogwheel
