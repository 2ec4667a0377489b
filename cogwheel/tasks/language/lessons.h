// What a run of a language model takes from other runs: weights to begin from (task.start), and a teacher.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/task.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

class LanguageModelImpl;

class Lessons {
 public:
  Lessons() = default;  // none
  // Reads [task], of which language modelling has these keys and no other. `folder` as of TaskEntry::make: a run that
  // has a checkpoint needs no start any more, and a teacher only once it learns. Throws UsageError for the keys, Error
  // where there is no such run, or another than was recorded.
  Lessons(const runs::RunConfig& config, const std::filesystem::path& folder);

  bool none() const { return options_.values.empty(); }
  bool has_teacher() const { return share_ > 0 || transfer_steps_ > 0; }
  // With defaults and hashes, as a run records them.
  const runs::TaskOptions& options() const { return options_; }
  // The file of the start's tokenizer; empty where there is no start, or none that is needed.
  std::filesystem::path tokenizer() const;
  // Of the start's model; 0 where there is none, or it is not needed.
  std::int64_t vocabulary() const;
  // Whether the model may have more words than the tokenizer, as that of the start has.
  bool allows_more_words() const;

  // Sets what the start decides and the options leave open: the words and the hidden units. Throws UsageError that
  // names the key where the model cannot take over the start's weights, or learn from the teacher.
  void complete(LanguageModelOptions& model) const;
  // `content`: of the run's tokenizer file. Throws Error where start or teacher learned with another.
  void expect_tokenizer(const std::string& content) const;

  // Of an initialised model, which is to learn: the start's weights in the place of what both have. Throws Error where
  // the teacher is gone.
  void initialize(LanguageModelImpl& model) const;

  // The transfer, and what follows it.
  std::vector<runs::Phase> phases() const;
  static bool is_transfer(const runs::Phase& phase);
  // The mean over tokens and layers of |mixer(x) − mixer′(x′)|², where x′ is what the teacher's mixers read and x the
  // model's norm of the teacher's residual stream: mixers learn, each by itself, what those in their places give.
  at::Tensor transfer_loss(LanguageModelImpl& model, const runs::Batch& batch) const;
  // With the divergence from the teacher in it (nn/losses/distillation_loss.h); without a teacher the loss of the
  // model.
  at::Tensor loss(LanguageModelImpl& model, const runs::Batch& batch, std::uint64_t dropout_seed) const;

 private:
  struct KnownRun;
  class Teacher;
  LanguageModelImpl& teaching(const LanguageModelImpl& model) const;

  runs::TaskOptions options_ = {};
  std::shared_ptr<const KnownRun> start_;   // null: none, or one that is no longer needed
  std::shared_ptr<const Teacher> teacher_;  // null: none, or one that is gone, whose pupil is only read
  std::string why_no_teacher_;
  double share_ = 0, temperature_ = 1;
  std::int64_t transfer_steps_ = 0;
};

}  // namespace cogwheel::tasks::language
