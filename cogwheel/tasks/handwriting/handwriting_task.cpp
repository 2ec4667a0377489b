// Handwriting: the next point of a pen, given the text that it writes. Graves (2013), on files of strokes or on the
// built-in font.
#include "cogwheel/tasks/handwriting/handwriting_task.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/handwriting/generated_handwriting.h"
#include "cogwheel/tasks/handwriting/handwriting_model.h"
#include "cogwheel/tasks/handwriting/stroke_batches.h"

namespace cogwheel::tasks::handwriting::writing {
namespace {

runs::TaskDescription describe() {
  return {.name = "handwriting",
          .summary = "predict the next point of a pen from the text that it writes",
          .item = "line",
          .data = "Lines of the built-in handwriting, drawn without end.",
          .does_better = "predicts unseen handwriting better",
          .do_better = "predict unseen handwriting better",
          .counted = "lines",
          .sampling = ", bias 1",
          .measures = {{.name = "held_out_loss",
                        .title = "held-out loss",
                        .label = "held-out",
                        .unit = "nats per point",
                        .min = std::nullopt}}};  // of a density
}

class HandwritingTask : public runs::Task {
 public:
  HandwritingTask(std::shared_ptr<const StrokeSource> source, runs::TaskOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        evaluated_(static_cast<std::int64_t>(source_->held_out().size())) {}

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }

  runs::DataFacts data(const runs::ModelOptions&, const runs::TrainingOptions& training) const override {
    return facts_of(training);
  }
  runs::DataFacts facts_of(const runs::TrainingOptions& training) const {
    return {.name = source_->name(),
            .tokenizer = description().item,
            .sha256 = source_->sha256(),
            .bytes = source_->bytes(),
            .vocabulary = vocabulary(),
            .train_tokens = source_->training_sequences(),
            .held_out_tokens = std::ssize(source_->held_out()),
            .evaluated_tokens = evaluated_,
            .curve_tokens = training.curve_tokens == 0 ? evaluated_ : std::min(evaluated_, training.curve_tokens),
            .window = 1};
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    runs::set_vocabulary(config, vocabulary(), ", the characters of the texts");
    const auto& model = config.model.as<HandwritingOptions>();
    check(model);
    // Without a text there is nothing for a window to move over.
    if (vocabulary() == 0 && model.mechanism != "none")
      throw UsageError(expected_got("model.mechanism", "none for strokes without texts", model.mechanism));
    config.definition = mechanism_text(model, "model.mechanism").definition;
    config.data.sha256 = source_->sha256();
    config.task = options_;
    return config;
  }

  std::string left_out() const override { return source_->left_out().empty() ? "" : "lines: " + source_->left_out(); }

  std::vector<runs::RunFile> assets() const override {
    std::vector<runs::RunFile> files{{runs::strokes_file, pen_record(*source_)}};
    if (source_->alphabet()) files.push_back({runs::tokenizer_file, source_->alphabet()->to_json()});
    return files;
  }

  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    nn::holder_of<Handwriting>(model)->initialize(seed);
  }

  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const std::lock_guard lock(mutex_);
    if (!batches_ || held_ != std::pair(training.seed, training.batch)) {
      batches_ = std::make_unique<StrokeBatches>(source_, training.seed, training.batch);
      held_ = {training.seed, training.batch};
    }
    return as_batch(batches_->at_step(place.batches));
  }
  // The points that are predicted.
  std::int64_t counted(const runs::Batch& batch) const override {
    return (batch.lengths - 1).sum().item<std::int64_t>();
  }
  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    Handwriting model = nn::holder_of<Handwriting>(module);
    return model->loss(batch.inputs, batch.lengths, model->text(batch.source, batch.source_lengths),
                       model->dropout(dropout_seed));
  }

  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads*) const override {
    const runs::DataFacts facts = facts_of(training);
    std::int64_t left = part == runs::EvaluationPart::curve ? facts.curve_tokens : facts.evaluated_tokens;
    Handwriting model = nn::holder_of<Handwriting>(module);
    double sum = 0, points = 0;
    for (std::int64_t first = 0; left > 0; first += together, left -= together) {
      const auto some = source_->held_out().subspan(static_cast<std::size_t>(first),
                                                    static_cast<std::size_t>(std::min(together, left)));
      const StrokeBatch batch = stroke_batch(some, source_->scale(), source_->alphabet().get());
      const auto count = (batch.lengths - 1).sum().item<double>();
      sum += count * model->loss(batch.points, batch.lengths, model->text(batch.characters, batch.character_lengths))
                         .item<double>();
      points += count;
    }
    return {{"held_out_loss", sum / points}};
  }

  runs::Inspection inspect(torch::nn::Module& model, std::uint64_t seed,
                           const runs::ThoroughInspection* thorough) const override {
    return show(model, seed, thorough == nullptr ? 4 : 50);
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    auto part = std::make_shared<HandwritingTask>(source_, options_);
    part->evaluated_ = std::min(evaluated, evaluated_);
    return part;
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<HandwritingTask>(source_->for_tuning(), options_);
  }

 private:
  static constexpr std::int64_t together = 64;  // lines of a pass in evaluation, whatever the training batch

  std::int64_t vocabulary() const { return source_->alphabet() ? source_->alphabet()->vocabulary() : 0; }
  static runs::Batch as_batch(const StrokeBatch& strokes) {
    return {.inputs = strokes.points,
            .targets = strokes.points,
            .tokens = strokes.points.size(0),
            .lengths = strokes.lengths,
            .source = strokes.characters,
            .source_lengths = strokes.character_lengths};
  }
  runs::Inspection show(torch::nn::Module& module, std::uint64_t seed, std::int64_t words) const {
    Handwriting model = nn::holder_of<Handwriting>(module);
    return show_handwriting(model, *source_, seed, words);
  }

  std::shared_ptr<const StrokeSource> source_;
  runs::TaskOptions options_;
  std::int64_t evaluated_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<StrokeBatches> batches_;
  mutable std::pair<std::uint64_t, std::int64_t> held_ = {};
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path&) {
  runs::TaskOptionReader reader(config.task);
  const std::string strokes = reader.path("strokes");
  BuiltInStrokes built_in;
  built_in.max_characters = reader.whole("characters", built_in.max_characters, {4, 100});
  built_in.held_out = reader.whole("held_out", built_in.held_out, {1, 1 << 20});
  const runs::TaskOptions options = reader.finish();
  const auto source = strokes.empty()
                          ? built_in_strokes(built_in)
                          : strokes_of_files(load_strokes(strokes, {.max_points = runs::common(config.model).context,
                                                                    .max_characters = built_in.max_characters * 4}));
  runs::expect_recorded_data(config, source->name(), source->sha256());
  return make_handwriting(source, options);
}

runs::Preset preset() {
  HandwritingOptions model;
  model.width = 128;
  return {.name = "handwriting",
          .summary = "the built-in font, or --strokes; 3 LSTM layers of 128, batch 32",
          .model = model,
          .training = {.batch = 32, .learning_rate = 2e-3, .curve_tokens = 128},
          .evaluated_tokens = 500,
          .seconds = 330,
          .steps = 1000,
          .attention = {"graves_window", "none"},
          .task = {"handwriting", {}}};
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting::writing

namespace cogwheel::tasks::handwriting {

std::shared_ptr<const runs::Task> make_handwriting(std::shared_ptr<const StrokeSource> source,
                                                   runs::TaskOptions options) {
  return std::make_shared<writing::HandwritingTask>(std::move(source), std::move(options));
}

runs::TaskEntry handwriting_task() {
  return {.description = writing::describe(),
          .make = writing::make,
          .sampler = {{"--prompt", "--bias", "--prime", "--out", "--seed"}, sample_handwriting},
          .random = random_handwriting,
          .preset = writing::preset,
          .data_keys = "task.strokes"};
}
}  // namespace cogwheel::tasks::handwriting
