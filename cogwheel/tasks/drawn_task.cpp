#include "cogwheel/tasks/drawn_task.h"

#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/philox.h"

namespace cogwheel {

DataFacts DrawnTask::data(const LanguageModelOptions& model, const TrainingOptions& training) const {
  const std::int64_t sequences = evaluated_tokens_ / model.context;
  return {
      .name = "random " + description().item + "s",
      .tokenizer = description().item,
      .vocabulary = vocabulary(),
      .held_out_tokens = evaluated_tokens_,
      .evaluated_tokens = sequences * model.context,
      .curve_tokens = evaluated_sequences(training, EvaluationPart::curve, model.context, sequences) * model.context};
}

RunConfig DrawnTask::completed(RunConfig config) const {
  const std::string& name = description().name;
  if (!config.data.text.empty())
    throw UsageError(expected_got("data.text", "none for the task " + name, config.data.text.front()));
  if (config.data.tokenizer != DataOptions{}.tokenizer)
    throw UsageError(expected_got("data.tokenizer", "none for the task " + name, config.data.tokenizer));
  expect_within("model.context", config.model.context, Range<std::int64_t>{2, evaluated_tokens_});
  complete_model(config, vocabulary(), "the task " + name);
  config.task = options_;
  return config;
}

Batch DrawnTask::batch(const torch::nn::Module& model, const TrainingOptions& training, std::int64_t step) const {
  return draw(training.seed, Part::training, step * training.batch, training.batch, context_of(model));
}

Batch DrawnTask::evaluated(const torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part) const {
  const std::int64_t context = context_of(model);
  return evaluated(evaluated_sequences(training, part, context, evaluated_tokens_ / context), context);
}

std::shared_ptr<const Task> DrawnTask::limited(std::int64_t evaluated_tokens) const {
  const std::shared_ptr<DrawnTask> task = copy();
  task->evaluated_tokens_ = evaluated_tokens;
  return task;
}

std::shared_ptr<const Task> DrawnTask::for_tuning() const {
  const std::shared_ptr<DrawnTask> task = copy();
  task->evaluated_ = Part::tuning;
  return task;
}

std::uint32_t DrawnTask::random(std::uint64_t seed, Part part, std::int64_t sequence, std::int64_t place) {
  const auto number = static_cast<std::uint64_t>(sequence);
  return philox({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(number),
                 static_cast<std::uint32_t>(number >> 32), static_cast<std::uint32_t>(part)},
                philox_key(seed))[0];
}

}  // namespace cogwheel
