// The base of tasks that a language model learns: the model, its loss, and attention maps of some tokens.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/lessons.h"

namespace cogwheel::text {
class Tokenizer;
}

namespace cogwheel::tasks::language {

class LanguageModelTask : public runs::Task {
 public:
  explicit LanguageModelTask(Lessons lessons = {}) : lessons_(std::move(lessons)) {}

  void initialize(torch::nn::Module& model, std::uint64_t seed) const override;
  std::int64_t counted(const runs::Batch& batch) const override;
  void expect_shared(const runs::ModelOptions& model, std::int64_t context, std::int64_t tensor) const override;
  std::vector<runs::Phase> phases() const override;
  bool learns(const torch::nn::Module& model, const runs::Phase& phase, const std::string& parameter) const override;
  at::Tensor loss_in(const runs::Phase& phase, torch::nn::Module& model, const runs::Batch& batch,
                     std::uint64_t dropout_seed) const override;
  // The mean cross-entropy over targets that are not `ignored_target`, or what a teacher makes of it.
  at::Tensor loss(torch::nn::Module& model, const runs::Batch& batch, std::uint64_t dropout_seed) const override;

  // Of a task on a text or corpora, held-out windows of that many tokens: those that hold `tokens`, evenly spread; 0:
  // all. Throws UsageError for another task.
  virtual runs::Batch held_out_windows_of(std::int64_t context, std::int64_t tokens, std::uint64_t seed) const;

 protected:
  // Of training.prompts. Throws UsageError for one that has none.
  static std::vector<Token> tokens_of_prompt(const text::Tokenizer& tokenizer, const std::string& prompt);
  // Task::continued.
  static std::string continued_text(torch::nn::Module& model, const text::Tokenizer& tokenizer,
                                    const std::string& prompt, std::uint64_t seed);
  // The first `bytes` of what tokens say, which may end within a character.
  static std::string text_of(const text::Tokenizer& tokenizer, std::span<const Token> tokens, std::int64_t bytes);
  static LanguageModelImpl& model_of(torch::nn::Module& model);
  static std::int64_t context_of(const torch::nn::Module& model);
  // What the run takes from others, of tasks that have it.
  const Lessons& lessons() const { return lessons_; }
  // The options of a task that has none but those of its lessons.
  runs::TaskOptions completed_options(const runs::TaskOptions& given) const;
  // The same, with what the lessons decide. Throws what they throw.
  void complete_taught_model(runs::RunConfig& config, std::int64_t vocabulary, const std::string& decided_by,
                             bool may_have_more = false) const;
  // Sets the vocabulary in the options of a model. Throws UsageError, naming `decided_by`, where they say another.
  // `may_have_more`: the model may have more tokens, which no text has, as imported ones do.
  static void complete_model(runs::RunConfig& config, std::int64_t vocabulary, const std::string& decided_by,
                             bool may_have_more = false);
  // How many of `all` sequences, each one context long, a part of the evaluation uses.
  static std::int64_t evaluated_sequences(const runs::TrainingOptions& training, runs::EvaluationPart part,
                                          std::int64_t context, std::int64_t all);
  // The tokens and attention maps of a sequence.
  static runs::Inspection maps_of(LanguageModel& model, std::span<const Token> tokens,
                                  const std::function<std::string(Token)>& label);
  // Those of a passage, and what the model goes on with. A character that the passage or the
  // sample cuts is U+FFFD.
  static runs::Inspection passage_and_sample(LanguageModel& model, const text::Tokenizer& tokenizer,
                                             std::span<const Token> passage, std::uint64_t seed);

 private:
  Lessons lessons_;
};

}  // namespace cogwheel::tasks::language
