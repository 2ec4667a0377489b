#include "cogwheel/tasks/encoders/sentence_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/class_names.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/weights.h"
#include "cogwheel/tasks/encoders/forerunner_options.h"
#include "cogwheel/tasks/encoders/toy_captions.h"
#include "cogwheel/tasks/encoders/toy_pairs.h"
#include "cogwheel/tasks/encoders/toy_reviews.h"
#include "cogwheel/text/held_out_tenth.h"
#include "cogwheel/text/text_record.h"

namespace cogwheel::tasks::encoders {
namespace {

bool is_encoder_task(const std::string& name) { return name == "sentences" || name == "masked_words"; }

// How many sentences are in a row: what a run records of its data, by which it reads what it is given later.
constexpr const char* in_row_key = "sentences_in_row";

// What predicts, which differs between the two kinds of encoder.
bool is_head(const std::string& name) {
  return name.starts_with("word_") || name.starts_with("pooler.") || name.starts_with("classifier.");
}

}  // namespace

struct SentenceData::Plan {
  std::mutex mutex;
  std::optional<text::BatchPlan> plan;
  std::int64_t planned = 0;
};

std::shared_ptr<const SentenceCorpus> sentence_corpus(runs::TaskOptionReader& reader, const runs::RunConfig& config,
                                                      bool labels, const std::filesystem::path& folder,
                                                      const std::filesystem::path& start) {
  SentenceOptions options{.training = reader.path("sentences"),
                          .held_out = reader.path("held_out_sentences"),
                          .labels = labels,
                          .vocab = reader.path("vocab")};
  options.vocabulary = reader.whole("vocabulary", options.vocabulary, text::WordPieceTokenizer::vocabularies);
  options.cased = reader.yes("cased", false);
  reader.later_whole(in_row_key, 0, {0, 2});  // recorded by `complete`
  options.longest = runs::common(config.model).context;
  if (labels) options.classes = runs::known_class_names(folder);
  const std::filesystem::path kept = !start.empty() ? start : folder;
  std::error_code problem;
  const bool has_tokenizer = !kept.empty() && std::filesystem::exists(kept / runs::tokenizer_file, problem);
  const std::string toy = reader.word("toy", "reviews", {"reviews", "captions", "pairs"});
  if (options.training.empty()) {
    if (!options.held_out.empty() || !options.vocab.empty())
      throw UsageError(expected_got("task.sentences", "a file to train on beside the others", "none"));
    auto made_up = std::make_shared<SentenceCorpus>(toy == "captions" ? toy_caption_corpus()
                                                    : toy == "pairs"  ? toy_pair_corpus(0)
                                                                      : toy_review_corpus(0));
    if (has_tokenizer &&
        text::load_word_piece(kept / runs::tokenizer_file)->vocabulary_text() != made_up->tokenizer->vocabulary_text())
      throw UsageError(expected_got("task.sentences",
                                    "a file: the word pieces of the model are not those of made-up sentences", "none"));
    runs::expect_recorded_data(config, made_up->name, made_up->sha256);
    if (!options.classes.empty() && options.classes != made_up->classes)
      throw Error(expected_got(made_up->name + ": classes",
                               fmt::format("those of the model: {}", fmt::join(options.classes, ", ")),
                               fmt::format("{}", fmt::join(made_up->classes, ", "))));
    return made_up;
  }
  auto corpus = std::make_shared<SentenceCorpus>(
      has_tokenizer ? load_sentence_corpus(options, text::load_word_piece(kept / runs::tokenizer_file))
                    : load_sentence_corpus(options));
  runs::expect_recorded_data(config, corpus->name, corpus->sha256);
  return corpus;
}

SentenceData::SentenceData(std::shared_ptr<const SentenceCorpus> corpus, std::int64_t evaluated)
    : corpus_(std::move(corpus)),
      evaluated_(evaluated < 0 ? corpus_->held_out.size() : std::min(evaluated, corpus_->held_out.size())),
      plan_(std::make_shared<Plan>()) {
  const SentenceRows& rows = corpus_->held_out;
  std::vector<std::int64_t> sorted(static_cast<std::size_t>(rows.size()));
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<std::int64_t>(i);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::int64_t a, std::int64_t b) { return rows.length(a) < rows.length(b); });
  // Every k-th by length in turn, each of which has all lengths and is evaluated in batches of like ones.
  const std::size_t stride = std::max<std::size_t>(1, sorted.size() / static_cast<std::size_t>(together));
  for (std::size_t offset = 0; offset < stride; ++offset)
    for (std::size_t i = offset; i < sorted.size(); i += stride) order_.push_back(sorted[i]);
}

std::vector<std::int64_t> SentenceData::training_rows(const runs::TrainingOptions& training, std::int64_t step) const {
  const std::lock_guard lock(plan_->mutex);
  if (!plan_->plan || plan_->planned != training.batch) {
    plan_->plan.emplace(sentence_batch_plan(corpus_->training, {.sentences = training.batch}));
    plan_->planned = training.batch;
  }
  return plan_->plan->pairs(training.seed, step);
}

std::vector<std::vector<std::int64_t>> SentenceData::held_out_rows(std::int64_t count) const {
  std::vector<std::int64_t> rows(order_.begin(), order_.begin() + std::min(count, evaluated_));
  std::stable_sort(rows.begin(), rows.end(), [&](std::int64_t a, std::int64_t b) {
    return corpus_->held_out.length(a) < corpus_->held_out.length(b);
  });
  std::vector<std::vector<std::int64_t>> batches;
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(together))
    batches.emplace_back(
        rows.begin() + static_cast<std::ptrdiff_t>(first),
        rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), first + static_cast<std::size_t>(together))));
  return batches;
}

runs::DataFacts SentenceData::facts(const std::string& item, const runs::TrainingOptions& training) const {
  return {.name = corpus_->name,
          .tokenizer = item,
          .sha256 = corpus_->sha256,
          .bytes = corpus_->files.empty() ? 0 : corpus_->bytes,
          .vocabulary = tokenizer().vocabulary(),
          .train_tokens = corpus_->training.size(),
          .held_out_tokens = corpus_->held_out.size(),
          .evaluated_tokens = evaluated_,
          .curve_tokens = training.curve_tokens == 0 ? evaluated_ : std::min(evaluated_, training.curve_tokens),
          .window = 1};
}

void SentenceData::complete(runs::RunConfig& config, const runs::TaskOptions& options) const {
  runs::set_vocabulary(config, tokenizer().vocabulary(), ", the pieces of " + corpus_->name);
  runs::check(config.model);
  const std::int64_t context = runs::common(config.model).context;
  if (context < corpus_->longest)
    throw UsageError(expected_got("model.context",
                                  "at least " + std::to_string(corpus_->longest) + " for " + corpus_->name,
                                  std::to_string(context)));
  const SentenceRows& rows = corpus_->training;
  const bool pairs = rows.size() > 0 && !rows.tokens.target(0).empty();
  if (const auto* const encoder = config.model.get_if<EncoderOptions>(); encoder && pairs && encoder->segments < 2)
    throw UsageError(expected_got("model.segments", "2 or more for the pairs of " + corpus_->name,
                                  std::to_string(encoder->segments)));
  if (config.model.get_if<DecomposableOptions>() != nullptr && !pairs)
    throw UsageError(expected_got("task.model", "another than decomposable, which compares two sentences",
                                  "rows of one in " + corpus_->name));
  runs::set_balanced_width(config.model, runs::balanced_width(config.model));
  config.definition = runs::mechanism_text(config.model, "model.mechanism").definition;
  config.data.sha256 = corpus_->sha256;
  config.task = options;
  config.task.values[in_row_key] = std::int64_t{corpus_->two_sentences ? 2 : 1};
}

std::vector<runs::RunFile> SentenceData::records() const {
  if (corpus_->files.empty()) return {};
  return {{runs::text_file, text::text_record(corpus_->name, corpus_->bytes, corpus_->sha256, corpus_->files)}};
}

SentenceData SentenceData::for_tuning() const {
  auto split = std::make_shared<SentenceCorpus>(*corpus_);
  const SentenceRows& all = corpus_->training;
  split->training = split->held_out = {};
  std::vector<std::string> rows, lines;
  for (std::int64_t row = 0; row < all.size(); ++row) {
    rows.push_back(all.tokens.content(row));
    lines.push_back(std::to_string(all.tokens.line(row)));
  }
  const std::vector<bool> held_out =
      text::held_out_tenth({.keys = rows, .ties = lines, .classes = all.labels, .most = corpus_->held_out.size()});
  for (std::int64_t row = 0; row < all.size(); ++row) {
    const auto place = static_cast<std::size_t>(row);
    SentenceRows& part = held_out[place] ? split->held_out : split->training;
    part.tokens.add(all.tokens.source(row), all.tokens.target(row), all.tokens.line(row));
    if (all.labels.empty()) continue;
    part.labels.push_back(all.labels[place]);
    part.texts.push_back(all.texts[place]);
  }
  if (split->held_out.size() == 0)
    throw Error(expected_got(corpus_->name + ", to choose a learning rate", "two different rows to train on",
                             "only equal ones"));
  return SentenceData(std::move(split));
}

runs::Batch as_batch(const EncoderBatch& encoded, const at::Tensor& targets) {
  return {.inputs = encoded.tokens,
          .targets = targets,
          .tokens = encoded.tokens.size(0),
          .lengths = encoded.lengths,
          .segments = encoded.segments};
}

TrainedEncoder load_encoder(const runs::RunFolder& folder) {
  const runs::RunConfig config = runs::load_config(folder.config_path());
  if (!is_encoder_task(config.task.name))
    throw Error(expected_got(folder.path().string(), "a run of the task sentences or masked_words", config.task.name));
  if (config.model.get_if<EncoderOptions>() == nullptr)
    throw Error(expected_got(folder.path().string(), "a run of an encoder",
                             "one of the model " + std::string(config.model.entry().name)));
  const auto& options = config.model.as<EncoderOptions>();
  TrainedEncoder trained{.model = Encoder(options), .tokenizer = text::load_word_piece(folder.tokenizer_path())};
  runs::TaskOptionReader reader(config.task);
  trained.in_row = options.segments < 2 ? 1 : reader.later_whole(in_row_key, 0, {0, 2});
  runs::load_weights_of(*trained.model, config, folder);
  return trained;
}

TrainedClassifier load_classifier(const runs::RunFolder& folder) {
  runs::RunConfig config = runs::load_config(folder.config_path());
  if (config.task.name != "sentences")
    throw Error(expected_got(folder.path().string(), "a run of the task sentences", config.task.name));
  TrainedClassifier trained{.module = runs::make_model(config.model),
                            .tokenizer = text::load_word_piece(folder.tokenizer_path()),
                            .context = runs::common(config.model).context,
                            .classes = classes_of(config.model)};
  const auto* const encoder = config.model.get_if<EncoderOptions>();
  runs::TaskOptionReader reader(config.task);
  trained.in_row = encoder != nullptr && encoder->segments < 2 ? 1 : reader.later_whole(in_row_key, 0, {0, 2});
  runs::load_weights_of(*trained.module, config, folder);
  return trained;
}

std::int64_t& classes_of(runs::ModelOptions& model) {
  if (auto* const options = model.get_if<StructuredOptions>()) return options->classes;
  if (auto* const options = model.get_if<LstmnOptions>()) return options->classes;
  if (auto* const options = model.get_if<DecomposableOptions>()) return options->classes;
  return model.as<EncoderOptions>().classes;
}

void start_from(EncoderImpl& model, const std::filesystem::path& run) {
  const runs::RunFolder folder = runs::RunFolder::open(run);
  TrainedEncoder trained = load_encoder(folder);
  EncoderOptions theirs = trained.model->options();
  theirs.classes = model.options().classes, theirs.dropout = model.options().dropout;
  if (theirs != model.options())
    throw Error(
        expected_got(run.string(), "a model with the options of [model], but for classes and dropout", "another"));
  const torch::NoGradGuard no_grad;
  const auto parameters = trained.model->named_parameters();
  for (auto& parameter : model.named_parameters())
    if (!is_head(parameter.key())) parameter.value().copy_(parameters[parameter.key()]);
}

std::vector<SentenceRow> texts_for(std::int64_t in_row, const GivenTexts& given) {
  if (given.prompt.empty() == given.input.empty())
    throw UsageError(expected_got(given.command, "either --prompt or --input, not empty",
                                  given.prompt.empty() ? "neither" : "both"));
  if (given.input.empty()) return {sentences_in(given.prompt, in_row)};
  SentenceTable table = read_sentences(given.input, {.in_row = in_row, .classes = given.classes});
  if (table.rows.empty()) throw Error(expected_got(given.input.string(), "sentences", "none"));
  if (!table.header_text.empty()) given.warn(given.input.string() + ": " + table.header_text);
  return std::move(table.rows);
}

std::string cut_warning(const SentenceRow& text) {
  return (text.line == 0 ? "the text" : "line " + std::to_string(text.line)) + " is too long and was cut";
}

at::Tensor text_states(TrainedEncoder& encoder, std::span<const SentenceRow> texts, std::int64_t tokens) {
  const torch::NoGradGuard no_grad;
  SentenceRows rows;
  for (const SentenceRow& text : texts) {
    const EncodedRow row =
        encode_row(*encoder.tokenizer, text.first, text.second, std::min(tokens, encoder.model->options().context));
    rows.tokens.add(row.first, row.second, rows.size());
  }
  std::vector<std::int64_t> all(texts.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const EncoderBatch batch = encoder_batch(rows, *encoder.tokenizer, all);
  const at::Tensor read = encoder.model->states(batch.tokens, batch.segments, {.lengths = batch.lengths}).cpu();
  at::Tensor states = at::zeros({read.size(0), tokens, read.size(2)}, read.options());
  const at::Tensor seen = at::arange(read.size(1)) < batch.lengths.unsqueeze(1);
  states.narrow(1, 0, read.size(1)).copy_(at::where(seen.unsqueeze(-1), read, 0.0));
  return states;
}

}  // namespace cogwheel::tasks::encoders
