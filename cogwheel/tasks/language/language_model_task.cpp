#include "cogwheel/tasks/language/language_model_task.h"

#include <torch/types.h>

#include <utility>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/attention_maps.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/dataset.h"

namespace cogwheel::tasks::language {

LanguageModelImpl& LanguageModelTask::model_of(torch::nn::Module& model) {
  return dynamic_cast<LanguageModelImpl&>(model);
}

std::int64_t LanguageModelTask::context_of(const torch::nn::Module& model) {
  return dynamic_cast<const LanguageModelImpl&>(model).options().context;
}

void LanguageModelTask::initialize(torch::nn::Module& model, std::uint64_t seed) const {
  model_of(model).initialize(seed);
}

std::int64_t LanguageModelTask::counted(const runs::Batch& batch) const { return runs::told_targets(batch); }

at::Tensor LanguageModelTask::loss(torch::nn::Module& module, const runs::Batch& batch,
                                   std::uint64_t dropout_seed) const {
  LanguageModelImpl& model = model_of(module);
  return model.loss(batch.inputs, batch.targets, {.dropout = model.dropout(dropout_seed)});
}

void LanguageModelTask::complete_model(runs::RunConfig& config, std::int64_t vocabulary,
                                       const std::string& decided_by) {
  LanguageModelOptions& model = config.model.as<LanguageModelOptions>();
  runs::set_vocabulary(config, vocabulary, ", as " + decided_by);
  check(model);
  model.feed_forward = model.feed_forward_width();
  config.definition = LayerPattern(model.mechanism).definition();
}

std::int64_t LanguageModelTask::evaluated_sequences(const runs::TrainingOptions& training, runs::EvaluationPart part,
                                                    std::int64_t context, std::int64_t all) {
  return text::limited_window_count(all, context, part == runs::EvaluationPart::curve ? training.curve_tokens : 0);
}

runs::Inspection LanguageModelTask::maps_of(LanguageModel& model, std::span<const Token> tokens,
                                            const std::function<std::string(Token)>& label) {
  runs::Inspection inspection;
  for (const Token token : tokens) inspection.tokens.push_back(label(token));
  inspection.set_maps(attention_maps(model, tokens));
  return inspection;
}

}  // namespace cogwheel::tasks::language
