#include "cogwheel/tasks/encoders/encoder_task.h"

#include <torch/types.h>

#include "cogwheel/nn/attention_maps.h"

namespace cogwheel::tasks::encoders {

std::int64_t EncoderTask::rows_of(runs::EvaluationPart part, const runs::TrainingOptions& training) const {
  const runs::DataFacts facts = facts_of(training);
  return part == runs::EvaluationPart::curve ? facts.curve_tokens : facts.evaluated_tokens;
}

void EncoderTask::show_maps(runs::Inspection& inspection, Encoder& model, const EncoderBatch& row) const {
  inspection.whole_maps = true;
  inspection.tokens.clear();
  for (std::int64_t place = 0; place < row.tokens.size(1); ++place)
    inspection.tokens.push_back(piece(row.tokens[0][place].item<std::int64_t>()));
  inspection.set_maps(
      nn::attention_maps([&](const nn::ForwardContext& context) { model->states(row.tokens, row.segments, context); }));
}

runs::Preset encoder_preset(std::string_view task, std::string_view summary) {
  EncoderOptions model;
  model.layers = 4, model.heads = 4, model.width = 128, model.context = 64, model.dropout = 0.1;
  return {.name = task,
          .summary = summary,
          .model = model,
          .training = {.batch = 32, .learning_rate = 5e-4, .final_learning_rate = 5e-6, .curve_tokens = 512},
          .evaluated_tokens = 10000,
          .seconds = 330,
          .steps = 1000,
          .task = {std::string(task), {}}};
}

}  // namespace cogwheel::tasks::encoders
