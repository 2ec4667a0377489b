// Classifying sentences, or pairs of them, by an encoder: Devlin et al., "BERT" (2019), section 3.2. Of tables with a
// label in each row, or of made-up reviews.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/encoders/encoder_task.h"
#include "cogwheel/tasks/encoders/word_baseline.h"

namespace cogwheel::tasks::encoders::sentences {
namespace {

runs::TaskDescription describe() {
  return {.name = "sentences",
          .summary = "classify sentences or pairs of them: of a table, or made-up reviews",
          .item = "sentence",
          .data = "Made-up reviews, whose verdict is what they say about the whole.",
          .does_better = "classifies unseen sentences better",
          .do_better = "classify unseen sentences better",
          .counted = "sentences",
          .measures = {
              {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false},
              {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per sentence"}}};
}

// What a model makes of some rows.
struct Answers {
  std::vector<std::int64_t> rows, best;
  double loss = 0, right = 0;  // sums
};

class Sentences : public EncoderTask {
 public:
  Sentences(SentenceData data, std::filesystem::path start, runs::TaskOptions options)
      : EncoderTask(std::move(data), std::move(options)), start_(std::move(start)) {}

  const runs::TaskDescription& description() const override {
    static const runs::TaskDescription description = describe();
    return description;
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    std::int64_t& classes = classes_of(config.model);
    if (classes != 0 && classes != this->classes())
      throw UsageError(expected_got("model.classes", fmt::format("{}, as {}", this->classes(), data_.corpus().name),
                                    std::to_string(classes)));
    classes = this->classes();
    data_.complete(config, options_);
    return config;
  }
  std::vector<runs::RunFile> assets() const override {
    return {{runs::tokenizer_file, data_.tokenizer().to_json()}, runs::class_names_file(data_.corpus().classes)};
  }
  void initialize(torch::nn::Module& module, std::uint64_t seed) const override {
    classifier_of(module).initialize(seed);
    if (!start_.empty()) start_from(*nn::holder_of<Encoder>(module), start_);
  }

  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const EncoderBatch drawn =
        encoder_batch(data_.corpus().training, data_.tokenizer(), data_.training_rows(training, place.batches));
    return as_batch(drawn, drawn.labels);
  }
  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    SentenceClassifier& model = classifier_of(module);
    const auto [logits, penalty] = classified(model, batch, {.dropout = model.dropout(dropout_seed)}, true);
    const at::Tensor loss = at::cross_entropy_loss(logits, nn::to_device(batch.targets, logits.device()));
    return penalty.defined() ? loss + penalty : loss;
  }

  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads* heads) const override {
    const std::int64_t count = rows_of(part, training);
    const Answers answers = answer(module, count, heads);
    return {{"accuracy", answers.right / static_cast<double>(count)},
            {"held_out_loss", answers.loss / static_cast<double>(count)}};
  }

  runs::Inspection inspect(torch::nn::Module& module, std::uint64_t, const runs::ThoroughInspection*) const override {
    const torch::NoGradGuard no_grad;
    const Answers answers = answer(module, data_.evaluated());
    runs::Inspection inspection;
    inspection.tables = {beside_counts(answers), by_length(answers), mistakes(answers)};
    auto encoder = nn::holder_of<Encoder>(module);
    if (encoder.is_empty()) return inspection;  // others have no maps of tokens that see each other
    const SentenceRows& rows = data_.corpus().held_out;
    const auto shown = std::find_if(answers.rows.rbegin(), answers.rows.rend(),
                                    [&](std::int64_t row) { return rows.length(row) <= readable; });
    if (shown == answers.rows.rend()) return inspection;
    const std::vector<std::int64_t> row{*shown};
    show_maps(inspection, encoder, encoder_batch(rows, data_.tokenizer(), row));
    return inspection;
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    return std::make_shared<Sentences>(data_.limited(std::min(evaluated, data_.evaluated())), start_, options_);
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<Sentences>(data_.for_tuning(), start_, options_);
  }

 private:
  std::int64_t classes() const { return std::ssize(data_.corpus().classes); }

  static Classified classified(SentenceClassifier& model, const runs::Batch& batch, nn::ForwardContext context,
                               bool learns = false) {
    context.lengths = batch.lengths;
    return model.classify(batch.inputs, batch.segments, context, learns);
  }

  Answers answer(torch::nn::Module& module, std::int64_t count, nn::StatisticsOfHeads* heads = nullptr) const {
    const torch::NoGradGuard no_grad;
    SentenceClassifier& model = classifier_of(module);
    Answers all;
    for (const std::vector<std::int64_t>& rows : data_.held_out_rows(count)) {
      const EncoderBatch some = encoder_batch(data_.corpus().held_out, data_.tokenizer(), rows);
      nn::Hooks hooks;
      std::optional<nn::HeadObserver> observer;
      if (heads != nullptr && all.rows.empty() && dynamic_cast<EncoderImpl*>(&module) != nullptr)
        observer.emplace(hooks);
      const at::Tensor logits =
          classified(model, as_batch(some, some.labels), {.hooks = observer ? &hooks : nullptr}).logits.cpu();
      if (observer) *heads = observer->statistics();
      all.loss += at::cross_entropy_loss(logits.to(at::kDouble), some.labels, {}, at::Reduction::Sum).item<double>();
      const at::Tensor best = logits.argmax(-1);
      all.right += (best == some.labels).sum().item<double>();
      all.rows.insert(all.rows.end(), rows.begin(), rows.end());
      for (std::int64_t i = 0; i < best.size(0); ++i) all.best.push_back(best[i].item<std::int64_t>());
    }
    return all;
  }

  static std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

  // The model beside what counts of words can do.
  pages::TextTable beside_counts(const Answers& answers) const {
    const NaiveBayes bayes(data_.corpus().training, classes());
    const SentenceRows& rows = data_.corpus().held_out;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(classes()));
    double bayes_right = 0;
    for (const std::int64_t row : answers.rows) {
      const auto place = static_cast<std::size_t>(row);
      ++counts[static_cast<std::size_t>(rows.labels[place])];
      bayes_right += bayes.classify(rows.texts[place]) == rows.labels[place] ? 1 : 0;
    }
    const auto all = static_cast<double>(answers.rows.size());
    return {"Beside what needs no order of words",
            {"", "accuracy"},
            {{"this model", percent(answers.right / all)},
             {"naive Bayes on words", percent(bayes_right / all)},
             {"always the most frequent class",
              percent(static_cast<double>(*std::max_element(counts.begin(), counts.end())) / all)}}};
  }

  pages::TextTable by_length(const Answers& answers) const {
    const SentenceRows& rows = data_.corpus().held_out;
    pages::TextTable table{"By length", {"pieces", "sentences", "accuracy"}, {}};
    const std::size_t parts = std::min<std::size_t>(4, answers.rows.size());
    for (std::size_t part = 0; part < parts; ++part) {  // rows are in the order of their lengths
      const std::size_t first = answers.rows.size() * part / parts, end = answers.rows.size() * (part + 1) / parts;
      double right = 0;
      for (std::size_t i = first; i < end; ++i)
        right += answers.best[i] == rows.labels[static_cast<std::size_t>(answers.rows[i])] ? 1 : 0;
      table.rows.push_back(
          {fmt::format("{} to {}", rows.length(answers.rows[first]), rows.length(answers.rows[end - 1])),
           std::to_string(end - first), percent(right / static_cast<double>(end - first))});
    }
    return table;
  }

  pages::TextTable mistakes(const Answers& answers) const {
    constexpr std::size_t shown = 8;
    const SentenceRows& rows = data_.corpus().held_out;
    pages::TextTable table{"Some that it takes for another class", {"sentence", "class", "taken for"}, {}};
    for (std::size_t i = 0; i < answers.rows.size() && table.rows.size() < shown; ++i) {
      const auto place = static_cast<std::size_t>(answers.rows[i]);
      if (answers.best[i] == rows.labels[place]) continue;
      const auto name = [&](std::int64_t label) { return data_.corpus().classes[static_cast<std::size_t>(label)]; };
      table.rows.push_back({rows.texts[place], name(rows.labels[place]), name(answers.best[i])});
    }
    return table;
  }

  std::filesystem::path start_;  // a run whose weights come first; empty: none
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  runs::TaskOptionReader reader(config.task);
  reader.later_word("model", {"encoder", "structured", "lstmn", "decomposable"});  // runs::model_of_task reads it
  std::filesystem::path start = reader.path("start");
  if (!start.empty() && config.model.get_if<EncoderOptions>() == nullptr)
    throw UsageError(expected_got("task.start", "none for a model that is no encoder", start.string()));
  // A run that has begun has weights of its own.
  std::error_code problem;
  if (!folder.empty() && std::filesystem::exists(folder / "checkpoint.safetensors", problem)) start.clear();
  auto corpus = sentence_corpus(reader, config, true, folder, start);
  if (!start.empty()) {
    const TrainedEncoder first = load_encoder(runs::RunFolder::open(start));
    if (first.tokenizer->vocabulary_text() != corpus->tokenizer->vocabulary_text())
      throw Error(expected_got("task.start", "a run with the same word pieces", start.string()));
  }
  return std::make_shared<Sentences>(SentenceData(std::move(corpus)), std::move(start), reader.finish());
}

// The prompt, or each text of a file: its classes with their probabilities, the most probable first.
void classify(const runs::RunFolder& folder, const runs::SampleRequest& request, const runs::SampleWriter& write) {
  const torch::NoGradGuard no_grad;
  const TrainedClassifier trained = load_classifier(folder);
  const std::vector<std::string> classes = runs::load_class_names(folder.path(), trained.classes);
  const std::vector<SentenceRow> texts = texts_for(trained.in_row, {.command = "sample",
                                                                    .prompt = request.prompt,
                                                                    .input = request.input,
                                                                    .classes = classes,
                                                                    .warn = request.warn});
  for (std::size_t place = 0; place < texts.size(); ++place) {
    const SentenceRow& text = texts[place];
    const EncodedRow row = encode_row(*trained.tokenizer, text.first, text.second, trained.context);
    if (row.first.empty()) {
      if (request.input.empty()) throw UsageError(expected_got("sample: --prompt", "a sentence", "one without words"));
      if (!write(place == 0 ? "" : "\n")) return;  // so that lines of the answer are those of the texts
      continue;
    }
    if (row.cut) request.warn(cut_warning(text));
    SentenceRows rows;
    rows.tokens.add(row.first, row.second, 0);
    const std::vector<std::int64_t> first{0};
    const EncoderBatch batch = encoder_batch(rows, *trained.tokenizer, first);
    const at::Tensor shares =
        classifier_of(*trained.module).classify(batch.tokens, batch.segments, {}).logits.softmax(-1)[0].cpu();
    const auto [values, labels] = shares.topk(std::min<std::int64_t>(3, shares.size(0)));
    std::string answer = place == 0 ? "" : "\n";
    for (std::int64_t best = 0; best < values.size(0); ++best)
      answer += fmt::format("{}{} {:.3f}", best == 0 ? "" : "  ",
                            classes.at(static_cast<std::size_t>(labels[best].item<std::int64_t>())),
                            values[best].item<double>());
    if (!write(answer)) return;
  }
}

// Of a model that is no encoder.
template <class Options>
runs::Preset forerunner_preset(std::string_view name, const char* word, std::string_view summary) {
  runs::Preset made = encoder_preset("sentences", summary);
  made.name = name;
  Options model;
  model.width = 128, model.context = 64, model.dropout = 0.1;
  made.model = model;
  made.training.learning_rate = 1e-3, made.training.final_learning_rate = 1e-5;
  made.attention = {"softmax", "cog", "sigmoid", "softmax_off_by_one"};
  made.task.values["model"] = word;
  return made;
}

runs::Preset structured_preset() {
  return forerunner_preset<StructuredOptions>(
      "sentences-structured", "structured",
      "the same by learned queries over recurrent states (task.model=structured), width 128, batch 32");
}
runs::Preset lstmn_preset() {
  return forerunner_preset<LstmnOptions>(
      "sentences-lstmn", "lstmn",
      "the same by an LSTM that attends over its past states (task.model=lstmn), width 128, batch 32");
}
runs::Preset decomposable_preset() {
  runs::Preset made = forerunner_preset<DecomposableOptions>(
      "sentences-decomposable", "decomposable",
      "made-up pairs, compared word by word (task.model=decomposable), width 128, batch 32");
  made.task.values["toy"] = "pairs";
  return made;
}

}  // namespace
}  // namespace cogwheel::tasks::encoders::sentences

namespace cogwheel::tasks::encoders {
runs::TaskEntry sentences_task() {
  return {.description = sentences::describe(),
          .make = sentences::make,
          .sampler = {{"--prompt", "--input"}, sentences::classify},
          .preset =
              [] {
                return encoder_preset("sentences",
                                      "made-up reviews, or --sentences; an encoder of 4 layers, width 128, batch 32");
              },
          .other_presets = {sentences::structured_preset, sentences::lstmn_preset, sentences::decomposable_preset},
          .data_keys = "task.sentences"};
}
}  // namespace cogwheel::tasks::encoders
