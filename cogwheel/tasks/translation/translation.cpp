// Translation of sentences: Sutskever et al. (2014), with the alignments of Bahdanau et al. (2014) and Luong et al.
// (2015), or by an encoder and a decoder of attention layers, Vaswani et al. (2017). Of parallel files, whose words are
// cut by a joint SentencePiece vocabulary, or of a toy language.
#include "cogwheel/tasks/translation/translation.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/translation/sequence_to_sequence.h"
#include "cogwheel/tasks/translation/transformer.h"
#include "cogwheel/tasks/translation/translations.h"
#include "cogwheel/tasks/translation/translator.h"
#include "cogwheel/text/text_lines.h"

namespace cogwheel::tasks::translation::translating {
namespace {

runs::TaskDescription describe(const std::string& piece) {
  return {.name = "translation",
          .summary = "translate sentences: of parallel files, or of a toy language",
          .item = "sentence",
          .data = "Sentences of a toy language, drawn without end, and their translations into another order of words.",
          .does_better = "predicts unseen translations better",
          .do_better = "predict unseen translations better",
          .counted = "sentences",
          .sampling = ", beam search",
          .measures = {
              {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per " + piece}}};
}

class Translation : public runs::Task {
 public:
  Translation(std::shared_ptr<const TranslationData> data, const TranslationSettings& settings,
              runs::TaskOptions options)
      : data_(std::move(data)),
        settings_(settings),
        options_(std::move(options)),
        description_(describe(data_->bytes() > 0 ? "piece" : "word")),
        evaluated_(data_->held_out().size()) {
    plan_held_out();
  }

  const runs::TaskDescription& description() const override { return description_; }

  runs::DataFacts data(const runs::ModelOptions&, const runs::TrainingOptions& training) const override {
    return facts_of(training);
  }
  runs::DataFacts facts_of(const runs::TrainingOptions& training) const {
    return {.name = data_->name(),
            .tokenizer = description_.item,
            .sha256 = data_->sha256(),
            .bytes = data_->bytes(),
            .vocabulary = data_->tokenizer().vocabulary(),
            .train_tokens = data_->sentences(),
            .held_out_tokens = data_->held_out().size(),
            .evaluated_tokens = evaluated_,
            .curve_tokens = training.curve_tokens == 0 ? evaluated_ : std::min(evaluated_, training.curve_tokens),
            .window = 1};
  }

  runs::RunConfig completed(runs::RunConfig config) const override {
    runs::set_vocabulary(config, data_->tokenizer().vocabulary(), ", as the data");
    runs::check(config.model);
    const std::int64_t context = runs::common(config.model).context;
    if (context <= data_->longest())
      throw UsageError(expected_got(
          "model.context",
          fmt::format("at least {} for the {}, ends of sentences included", data_->longest() + 1, data_->name()),
          std::to_string(context)));
    config.definition = runs::mechanism_text(config.model, "model.mechanism").definition;
    config.data.sha256 = data_->sha256();
    config.task = options_;
    return config;
  }

  std::vector<runs::RunFile> assets() const override { return {{runs::tokenizer_file, data_->tokenizer().to_json()}}; }
  std::vector<runs::RunFile> records() const override {
    const std::string record = data_->record();
    return record.empty() ? std::vector<runs::RunFile>{} : std::vector<runs::RunFile>{{runs::text_file, record}};
  }
  std::string left_out() const override { return data_->dropped(); }

  void initialize(torch::nn::Module& model, std::uint64_t seed) const override {
    translator_of(model).initialize(seed);
  }

  runs::Batch batch(const torch::nn::Module&, const runs::TrainingOptions& training,
                    const runs::DataPlace& place) const override {
    const SentenceBatch drawn = data_->batch(training.seed, place.batches, training.batch);
    return {.inputs = drawn.inputs,
            .targets = drawn.targets,
            .tokens = drawn.inputs.size(0),
            .source = drawn.source.tokens,
            .source_lengths = drawn.source.lengths};
  }
  std::int64_t counted(const runs::Batch& batch) const override { return runs::told_targets(batch); }
  at::Tensor loss(torch::nn::Module& module, const runs::Batch& batch, std::uint64_t dropout_seed) const override {
    Translator& model = translator_of(module);
    return model.loss(batch.source, batch.source_lengths, batch.inputs, batch.targets, settings_.label_smoothing,
                      model.dropout(dropout_seed));
  }

  // The mean over tokens, ends of sentences included; without smoothing.
  runs::MeasuredValues evaluate(torch::nn::Module& module, const runs::TrainingOptions& training,
                                runs::EvaluationPart part, nn::StatisticsOfHeads*) const override {
    Translator& model = translator_of(module);
    const runs::DataFacts facts = facts_of(training);
    const std::int64_t sentences = part == runs::EvaluationPart::curve ? facts.curve_tokens : facts.evaluated_tokens;
    double sum = 0, tokens = 0;
    for (std::int64_t first = 0; first < sentences; first += together) {
      const SentenceBatch some =
          sentence_batch(data_->held_out(),
                         std::span(order_).subspan(static_cast<std::size_t>(first),
                                                   static_cast<std::size_t>(std::min(together, sentences - first))));
      const auto count = static_cast<double>(some.tokens);
      sum += count * model.loss(some.source.tokens, some.source.lengths, some.inputs, some.targets).item<double>();
      tokens += count;
    }
    return {{"held_out_loss", sum / tokens}};
  }

  runs::Inspection inspect(torch::nn::Module& model, std::uint64_t,
                           const runs::ThoroughInspection* thorough) const override {
    constexpr std::int64_t quickly = 200;
    return show_translations(translator_of(model), *data_,
                             thorough == nullptr ? quickly : std::ssize(data_->test().source), settings_.beam);
  }

  std::shared_ptr<const runs::Task> limited(std::int64_t evaluated) const override {
    auto part = std::make_shared<Translation>(data_, settings_, options_);
    part->evaluated_ = std::min(evaluated, evaluated_);
    part->plan_held_out();
    return part;
  }
  std::shared_ptr<const runs::Task> for_tuning() const override {
    return std::make_shared<Translation>(data_->for_tuning(), settings_, options_);
  }

 private:
  static constexpr std::int64_t together = 64;  // sentences of a pass in evaluation, whatever the training batch

  // The held-out pairs that are evaluated, so that any first part has all lengths: every k-th by length in turn.
  void plan_held_out() {
    std::vector<std::int64_t> sorted(static_cast<std::size_t>(evaluated_));
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<std::int64_t>(i);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int64_t a, std::int64_t b) {
      return data_->held_out().source(a).size() < data_->held_out().source(b).size();
    });
    const std::size_t stride = std::max<std::size_t>(1, sorted.size() / static_cast<std::size_t>(together));
    order_.clear();
    for (std::size_t offset = 0; offset < stride; ++offset)
      for (std::size_t i = offset; i < sorted.size(); i += stride) order_.push_back(sorted[i]);
  }

  std::shared_ptr<const TranslationData> data_;
  TranslationSettings settings_;
  runs::TaskOptions options_;
  runs::TaskDescription description_;
  std::int64_t evaluated_;
  std::vector<std::int64_t> order_;
};

std::shared_ptr<const runs::Task> make(const runs::RunConfig& config, const std::filesystem::path& folder) {
  runs::TaskOptionReader reader(config.task);
  reader.later_word("model", {"recurrent", "transformer"});  // runs::model_of_task reads it
  ParallelOptions files{.training = {reader.path("source"), reader.path("target")},
                        .held_out = {reader.path("held_out_source"), reader.path("held_out_target")},
                        .test = {reader.path("test_source"), reader.path("test_target")}};
  files.vocabulary = reader.whole("vocabulary", files.vocabulary, ParallelOptions::vocabularies);
  files.fewer_will_do = !config.task.values.contains("vocabulary");
  files.longest = runs::common(config.model).context - 1;
  ToyLanguage language;
  language.distance = reader.whole("distance", 0, ToyLanguage::distances);
  TranslationSettings settings;
  settings.label_smoothing = reader.number("label_smoothing", settings.label_smoothing,
                                           Range<double>{.min = 0, .max = 1, .max_excluded = true});
  settings.beam.beam = reader.whole("beam", settings.beam.beam, beam_range);
  settings.beam.length_penalty = reader.number("length_penalty", settings.beam.length_penalty, length_penalty_range);
  runs::TaskOptions options = reader.finish();
  if (files.training.none()) {
    if (!files.held_out.none() || !files.test.none())
      throw UsageError(expected_got("task.source", "a file to train on beside those to test on", "none"));
    return make_translation(toy_data(language), settings, options);
  }
  std::error_code problem;
  const bool kept = !folder.empty() && std::filesystem::exists(folder / runs::tokenizer_file, problem);
  auto corpus = std::make_shared<ParallelCorpus>(
      kept ? load_parallel_corpus(files, text::load_sentence_tokenizer(folder / runs::tokenizer_file))
           : load_parallel_corpus(files));
  runs::expect_recorded_data(config, corpus->name, corpus->sha256);
  if (files.fewer_will_do) options.values["vocabulary"] = corpus->tokenizer->vocabulary();
  return make_translation(parallel_data(std::move(corpus)), settings, options);
}

// Each line of the prompt, or of a file.
void sample_translations(const runs::RunFolder& folder, const runs::SampleRequest& request,
                         const runs::SampleWriter& write) {
  const runs::RunConfig config = runs::load_config(folder.config_path());
  const std::shared_ptr<torch::nn::Module> module = runs::make_model(config.model);
  runs::load_weights_of(*module, config, folder);
  Translator& model = translator_of(*module);
  const auto tokenizer = text::load_sentence_tokenizer(folder.tokenizer_path());
  if (request.prompt.empty() == request.input.empty())
    throw UsageError(
        expected_got("sample", "either --prompt or --input, not empty", request.prompt.empty() ? "neither" : "both"));
  const std::vector<std::string> lines =
      request.input.empty() ? std::vector<std::string>{request.prompt} : text::read_text_lines(request.input).lines;
  BeamOptions options;
  runs::TaskOptionReader reader(config.task);
  options.length_penalty = reader.number("length_penalty", options.length_penalty, length_penalty_range);
  options.beam = request.beam > 0 ? request.beam : reader.whole("beam", options.beam, beam_range);
  const auto cut = [&](std::size_t line) {
    request.warn(fmt::format("line {} is longer than {} tokens and was cut", line + 1, model.context() - 1));
  };
  if (request.alignment_layer && request.alignments.empty())
    throw UsageError(expected_got("--alignment-layer", "--alignments beside it", "none"));
  if (!request.alignments.empty()) {
    if (!model.aligns())
      throw UsageError(expected_got("--alignments", "a run whose model aligns", runs::common(config.model).mechanism));
    if (request.alignment_layer && config.model.get_if<TransformerOptions>() == nullptr)
      throw UsageError(expected_got("--alignment-layer", "a transformer, which has several", "a recurrent model"));
    if (request.alignment_layer)
      expect_within("--alignment-layer", *request.alignment_layer, Range<std::int64_t>{0, model.aligning_layers() - 1});
    expect_writable(request.alignments);
  }
  std::string links;
  // A few at a time, so that a long file shows progress and can be interrupted.
  constexpr std::size_t at_once = 256;
  for (std::size_t first = 0; first < lines.size(); first += at_once) {
    const auto some = std::span(lines).subspan(first, std::min(at_once, lines.size() - first));
    const auto cut_here = [&](std::size_t line) { cut(first + line); };
    std::string text;
    const auto add = [&](const std::string& each) { text += (text.empty() && first == 0 ? "" : "\n") + each; };
    if (request.alignments.empty()) {
      for (const std::string& each : translate(model, *tokenizer, some, options, cut_here)) add(each);
    } else {
      for (const AlignedTranslation& each :
           translate_aligned(model, *tokenizer, some, options, request.alignment_layer, cut_here)) {
        add(each.text);
        links += pharaoh_text(each.links) + "\n";
      }
    }
    if (!write(text)) break;
  }
  if (!request.alignments.empty()) write_file(request.alignments, links);
}

runs::Preset preset() {
  SequenceToSequenceOptions model;
  model.width = 128;
  model.context = 40;
  model.feed_forward = 4 * model.width;  // which balances what alignments add
  model.dropout = 0.1;
  return {.name = "translation",
          .summary = "the toy language, or --source and --target; GRU, width 128, batch 64",
          .model = model,
          .training = {.batch = 64, .learning_rate = 2e-3, .curve_tokens = 256},
          .evaluated_tokens = 1000,
          .seconds = 330,
          .steps = 1500,
          .attention = {"bahdanau", "none", "luong_general", "bahdanau_cog"},
          .task = {"translation", {{"label_smoothing", 0.1}}}};
}

runs::Preset transformer_preset() {
  runs::Preset made = preset();
  made.name = "translation-transformer";
  made.summary = "the same by attention layers alone (task.model=transformer): 2 of each stack, width 128, batch 64";
  TransformerOptions model;
  model.layers = 2;
  model.width = 128;
  model.context = 40;
  model.dropout = 0.1;
  made.model = model;
  made.attention = {"softmax", "cog", "differential", "sigmoid"};
  made.task.values["model"] = "transformer";
  return made;
}

}  // namespace
}  // namespace cogwheel::tasks::translation::translating

namespace cogwheel::tasks::translation {

std::shared_ptr<const runs::Task> make_translation(std::shared_ptr<const TranslationData> data,
                                                   const TranslationSettings& settings, runs::TaskOptions options) {
  return std::make_shared<translating::Translation>(std::move(data), settings, std::move(options));
}

runs::TaskEntry translation_task() {
  return {.description = translating::describe("word"),
          .make = translating::make,
          .sampler = {{"--prompt", "--input", "--beam", "--alignments", "--alignment-layer"},
                      translating::sample_translations},
          .random = random_translation,
          .preset = translating::preset,
          .other_presets = {translating::transformer_preset},
          .data_keys = "task.source and task.target"};
}
}  // namespace cogwheel::tasks::translation
