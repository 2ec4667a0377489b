#include "cogwheel/tasks/encoders/encoder_task.h"

#include <torch/types.h>

#include "cogwheel/nn/attention_maps.h"

namespace cogwheel {

std::int64_t EncoderTask::rows_of(EvaluationPart part, const TrainingOptions& training) const {
  const DataFacts facts = facts_of(training);
  return part == EvaluationPart::curve ? facts.curve_tokens : facts.evaluated_tokens;
}

void EncoderTask::show_maps(Inspection& inspection, Encoder& model, const EncoderBatch& row) const {
  inspection.whole_maps = true;
  inspection.tokens.clear();
  for (std::int64_t place = 0; place < row.tokens.size(1); ++place)
    inspection.tokens.push_back(piece(row.tokens[0][place].item<std::int64_t>()));
  inspection.set_maps(
      attention_maps([&](const ForwardContext& context) { model->states(row.tokens, row.segments, context); }));
}

}  // namespace cogwheel
