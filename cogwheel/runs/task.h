// A learning task: a model, batches, a loss, measures, and the inspection of a trained model. The training loop,
// checkpoints, matching, tuning, comparison and report use this interface and know nothing of the tasks themselves.
// tasks/ has one file for each; tasks/tasks.def lists them.
//
// Free of libtorch's headers, so that planning and reporting compile without them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/nn/hooks/head_statistics.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/inspection.h"
#include "cogwheel/runs/measure.h"
#include "cogwheel/runs/run_folder.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

struct Batch;

// How a report describes the task; recorded in results, so that a report needs no task.
struct TaskDescription {
  std::string name;     // as in --task
  std::string summary;  // one line
  std::string item;     // the kind of one token: character, byte, symbol
  std::string data;     // for a task without a text, a sentence on the data that it draws
  // "<mechanism> <does_better> than <baseline>", for one mechanism and for several.
  std::string does_better = "does better", do_better = "do better";
  std::string counted = "tokens";      // what budgets and speeds count
  std::string sampling = {};           // how samples are drawn, after a comma: ", temperature 0.8"
  std::vector<Measure> measures = {};  // the first decides a comparison

  const Measure& decisive() const { return measures.front(); }
  bool has(std::string_view measure) const {
    return std::any_of(measures.begin(), measures.end(), [&](const Measure& each) { return each.name == measure; });
  }
  bool operator==(const TaskDescription&) const = default;
};

// The size and origin of the data, as a comparison records them. Counts are of items.
struct DataFacts {
  std::string name;
  std::string tokenizer;  // its kind, of a text; else what one item is: TaskDescription::item
  std::string sha256 = {};
  std::vector<std::string> text = {};    // files and folders as given; none: Python's standard library, or no text
  std::vector<std::string> corpus = {};  // folders of prepared corpora, in place of a text
  std::int64_t byte_limit = 0;           // where the text was cut; 0: nowhere
  std::int64_t bytes = 0;                // 0: no text
  std::int64_t vocabulary = 0;
  std::int64_t train_tokens = 0;  // 0: drawn without limit
  std::int64_t held_out_tokens = 0;
  std::int64_t evaluated_tokens = 0;  // the first part of the held-out data, on which results are measured
  std::int64_t curve_tokens = 0;      // those of them, spread evenly, that curves use
  std::int64_t window = 0;            // tokens of a sequence in training and evaluation; 0: the context

  // What one token is called: TaskDescription::item.
  std::string item() const;
  // Whether curves use less than all evaluated items.
  bool curve_is_part() const { return curve_tokens < evaluated_tokens; }
  // Whether a good part of the held-out items is not evaluated, more than does not fill a window.
  bool evaluates_part() const { return 10 * evaluated_tokens < 9 * held_out_tokens; }
};

// Where a run is in its data: the batches before, those included that were left out, and their rows.
struct DataPlace {
  std::int64_t batches = 0, rows = 0;
  bool operator==(const DataPlace&) const = default;
};

// Steps that learn something else than those after them.
struct Phase {
  std::string name;             // in metrics; empty: the task itself
  std::int64_t first_step = 0;  // counted from 0
};

enum class EvaluationPart {
  curve,  // the part of the held-out data that training.curve_tokens selects, always the same items
  whole
};

class Task {
 public:
  virtual ~Task() = default;

  virtual const TaskDescription& description() const = 0;
  // The data as a model with these options uses it.
  virtual DataFacts data(const ModelOptions& model, const TrainingOptions& training) const = 0;

  // The configuration with everything that the task or its data decides: vocabulary, hashes, the options of the task
  // with their defaults. A run records the result. Throws UsageError for options that do not fit.
  virtual RunConfig completed(RunConfig config) const = 0;
  // Files that later use of the model needs besides its weights, such as a tokenizer; names are among run_files().
  virtual std::vector<RunFile> assets() const { return {}; }
  // Files of the same folder by which a later reader can tell whether the data has changed.
  virtual std::vector<RunFile> records() const { return {}; }
  // In one line, what was left out of the data; empty: nothing.
  virtual std::string left_out() const { return {}; }
  // A line each, how the data were taken where that may not be what was meant.
  virtual std::vector<std::string> notes() const { return {}; }

  virtual void initialize(torch::nn::Module& model, std::uint64_t seed) const = 0;

  // The next batch. It depends only on training.seed and the place, so that runs with the same seed see the same data,
  // and a resumed run needs no state but its place.
  virtual Batch batch(const torch::nn::Module& model, const TrainingOptions& training,
                      const DataPlace& place) const = 0;
  // The loss, a scalar to differentiate: a mean over what `counted` counts. The same seed drops the same elements.
  virtual at::Tensor loss(torch::nn::Module& model, const Batch& batch, std::uint64_t dropout_seed) const = 0;
  // In the order of their steps, the first from 0 on. Losses of one are not compared with those of another.
  virtual std::vector<Phase> phases() const { return {{}}; }
  // Whether steps of the phase change a parameter of the model. What one changes, those after it do too.
  virtual bool learns(const torch::nn::Module& model, const Phase& phase, const std::string& parameter) const;
  // `loss`, in a phase that has its own.
  virtual at::Tensor loss_in(const Phase& phase, torch::nn::Module& model, const Batch& batch,
                             std::uint64_t dropout_seed) const;
  // That `loss` can be the part of one of `context` ranks that share texts and `tensor` that share heads (Batch::texts,
  // Batch::heads), whose sum is the loss. Throws UsageError that names the option.
  virtual void expect_shared(const ModelOptions& model, std::int64_t context, std::int64_t tensor) const;
  // Decides the share of a slice of a batch in the loss of the whole.
  virtual std::int64_t counted(const Batch& batch) const;

  // The measures, for curves without those that are at_end_only; in float32 and without dropout. Unless `heads` is
  // null, it receives the statistics of the heads on the first items.
  virtual MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                                  nn::StatisticsOfHeads* heads) const = 0;

  // What `evaluate` asks a model, for a task that asks the same in several ways, of which a model may learn one alone.
  // Tasks with equal words measure alike. Empty: tasks do that give a model the same measures.
  virtual std::string measured_problems(const ModelOptions& model, const TrainingOptions& training) const;

  // What a page shows of the model. Draws the same random numbers for every model with the same seed. The caller fills
  // in mechanism and seed. `thorough`: null in a comparison, where it must not take long.
  virtual Inspection inspect(torch::nn::Module& model, std::uint64_t seed,
                             const ThoroughInspection* thorough) const = 0;
  // What the model loses by numbers of fewer bits, of a few of the held-out items, and past its context. Throws
  // UsageError for a task whose model knows neither, and for a model that they mean nothing to.
  virtual NarrowingCost narrowing_cost(torch::nn::Module& model, const TrainingOptions& training,
                                       const KeptNumbers& kept) const;
  // How the model of a task on texts (TaskEntry::reads_text) continues one: at temperature 0.8, up to 200 tokens. The
  // first throws UsageError for a prompt that it cannot continue.
  virtual void expect_continuable(const std::string& prompt) const;
  virtual std::string continued(torch::nn::Module& model, const std::string& prompt, std::uint64_t seed) const;
  // The beginning of what a task on texts holds out, at most so many bytes; empty: it holds out no text.
  virtual std::string held_out_text(std::int64_t bytes) const;
  // Whether a thorough inspection does what it is asked for.
  virtual bool generates_images() const { return false; }

  // The same task with at most that many held-out items evaluated, a multiple of DataFacts::window.
  virtual std::shared_ptr<const Task> limited(std::int64_t evaluated_tokens) const = 0;
  // The same task for choosing learning rates: it never trains on what it evaluates, nor uses the held-out part.
  virtual std::shared_ptr<const Task> for_tuning() const = 0;
};

// The model of completed options; weights are uninitialised.
std::shared_ptr<torch::nn::Module> make_model(const ModelOptions& options);

// The number of its learnable parameters, with a tied head counted once. Allocates nothing.
std::int64_t parameter_count(const ModelOptions& options);
// Those within transformer blocks, so without embeddings and head; 0 of a model without blocks.
std::int64_t block_parameter_count(const ModelOptions& options);

// The model of a run with the weights of its checkpoint. Throws what load_weights_of throws.
std::shared_ptr<torch::nn::Module> load_model(const RunConfig& config, const RunFolder& folder);

}  // namespace cogwheel::runs
