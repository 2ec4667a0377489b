// The sentences that an encoder learns from, as the options of the task name them, and runs of encoders.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/configuration/model_options.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/encoders/encoder.h"
#include "cogwheel/tasks/encoders/sentence_batches.h"
#include "cogwheel/tasks/encoders/sentence_table.h"

namespace cogwheel::runs {
class RunFolder;
}  // namespace cogwheel::runs

namespace cogwheel::tasks::encoders {

// task.sentences and task.held_out_sentences, files that tasks/encoders/sentence_corpus.h reads; where there are none
// made-up reviews (tasks/encoders/toy_reviews.h), or with task.toy = "captions" those of coloured shapes. task.vocab,
// task.vocabulary and task.cased say what pieces they are cut into; of a resumed run, those that `folder` keeps, and of
// a run that starts from another one, that one's (`start`). Throws Error where they cannot be read, or are not those of
// config.data.sha256.
std::shared_ptr<const SentenceCorpus> sentence_corpus(runs::TaskOptionReader& reader, const runs::RunConfig& config,
                                                      bool labels, const std::filesystem::path& folder,
                                                      const std::filesystem::path& start = {});

// Parts of a corpus as tasks use it: batches of training, and what is held out in batches of like lengths.
class SentenceData {
 public:
  static constexpr std::int64_t together = 64;  // rows of a batch of evaluation, whatever the training batch

  explicit SentenceData(std::shared_ptr<const SentenceCorpus> corpus, std::int64_t evaluated = -1);

  const SentenceCorpus& corpus() const { return *corpus_; }
  const text::WordPieceTokenizer& tokenizer() const { return *corpus_->tokenizer; }
  std::int64_t evaluated() const { return evaluated_; }

  // Rows of the batch of a step.
  std::vector<std::int64_t> training_rows(const runs::TrainingOptions& training, std::int64_t step) const;
  // The first `count` evaluated rows in batches of like lengths; any first part has all lengths.
  std::vector<std::vector<std::int64_t>> held_out_rows(std::int64_t count) const;

  runs::DataFacts facts(const std::string& item, const runs::TrainingOptions& training) const;
  // Sets vocabulary, hash and task of a configuration. Throws UsageError where the model does not fit.
  void complete(runs::RunConfig& config, const runs::TaskOptions& options) const;
  std::vector<runs::RunFile> records() const;

  // The same corpus with fewer rows evaluated, and with a part of the training rows held out instead.
  SentenceData limited(std::int64_t evaluated) const { return SentenceData(corpus_, evaluated); }
  SentenceData for_tuning() const;

 private:
  std::shared_ptr<const SentenceCorpus> corpus_;
  std::int64_t evaluated_;
  std::vector<std::int64_t> order_;  // of held-out rows
  struct Plan;
  std::shared_ptr<Plan> plan_;  // of the batch size that was asked for last
};

// As the loss of a task takes it.
runs::Batch as_batch(const EncoderBatch& encoded, const at::Tensor& targets);

// The encoder of a run of either task, with its tokenizer. Throws Error for a run of another.
struct TrainedEncoder {
  Encoder model{nullptr};
  std::shared_ptr<const text::WordPieceTokenizer> tokenizer;
  std::int64_t in_row = 0;  // sentences that it learned from in a row, 1 or 2; 0: not known
};
TrainedEncoder load_encoder(const runs::RunFolder& folder);

// The model of a run of the task sentences, of any topology. Throws Error for a run of another task.
struct TrainedClassifier {
  std::shared_ptr<torch::nn::Module> module;  // a SentenceClassifier
  std::shared_ptr<const text::WordPieceTokenizer> tokenizer;
  std::int64_t context = 0, classes = 0, in_row = 0;  // the last as above
};
TrainedClassifier load_classifier(const runs::RunFolder& folder);

// The classes that the options of any model of the task have.
std::int64_t& classes_of(runs::ModelOptions& model);

// What a command is given to read: a text, or a file, of which tasks/encoders/sentence_table.h says what is read.
struct GivenTexts {
  std::string command;  // for messages
  std::string prompt = {};
  std::filesystem::path input = {};
  std::vector<std::string> classes = {};  // of the model; none: it does not classify
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};
// `in_row`: sentences that the model learned from in a row, as of TrainedEncoder. Throws UsageError unless one of both
// is given; Error for a file without sentences, or with another number of them in a row than the encoder learned from.
std::vector<SentenceRow> texts_for(std::int64_t in_row, const GivenTexts& given);
// That a text, of the prompt or of a line, is longer than the encoder's context.
std::string cut_warning(const SentenceRow& text);

// Copies what both models have: all but what predicts hidden words or classes. Throws Error where the run's model is of
// other options.
void start_from(EncoderImpl& model, const std::filesystem::path& run);

// The vectors of texts: states [texts, tokens, width], rows after the end of a text 0, cut to `tokens`.
at::Tensor text_states(TrainedEncoder& encoder, std::span<const SentenceRow> texts, std::int64_t tokens);

}  // namespace cogwheel::tasks::encoders
