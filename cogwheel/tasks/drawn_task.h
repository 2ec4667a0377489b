// What tasks share whose sequences are drawn, each once, by seed, part and number: no data to load, to hash or to run
// out of.
#pragma once
#include <cstdint>
#include <memory>

#include "cogwheel/tasks/language_model_task.h"

namespace cogwheel {

class DrawnTask : public LanguageModelTask {
 public:
  DataFacts data(const LanguageModelOptions& model, const TrainingOptions& training) const override;
  RunConfig completed(RunConfig config) const override;
  Batch batch(const torch::nn::Module& model, const TrainingOptions& training, std::int64_t step) const override;
  std::shared_ptr<const Task> limited(std::int64_t evaluated_tokens) const override;
  std::shared_ptr<const Task> for_tuning() const override;

 protected:
  // Which of the sequences: no two parts share one by more than chance.
  enum class Part : std::uint32_t { training, held_out, tuning };

  // `options` with every option of the task.
  explicit DrawnTask(TaskOptions options) : options_(std::move(options)) {}
  DrawnTask(const DrawnTask&) = default;

  virtual std::int64_t vocabulary() const = 0;
  // Sequences `first` to `first` + count − 1 of a part, [count, context] each.
  virtual Batch draw(std::uint64_t seed, Part part, std::int64_t first, std::int64_t count,
                     std::int64_t context) const = 0;
  virtual std::shared_ptr<DrawnTask> copy() const = 0;

  // The first sequences of those that are evaluated, and all that a part of the evaluation sees.
  Batch evaluated(std::int64_t count, std::int64_t context) const { return draw(0, evaluated_, 0, count, context); }
  Batch evaluated(const torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part) const;
  // A random number for a place of a sequence, which may be −1 and less for what is drawn of it as a whole.
  static std::uint32_t random(std::uint64_t seed, Part part, std::int64_t sequence, std::int64_t place);

 private:
  TaskOptions options_;
  std::int64_t evaluated_tokens_ = 1 << 18;
  Part evaluated_ = Part::held_out;
};

}  // namespace cogwheel
