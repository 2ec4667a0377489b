#include "cogwheel/tasks/language/packed_loss.h"

#include <torch/types.h>

#include <utility>

namespace cogwheel::tasks::language {

at::Tensor document_starts(const at::Tensor& positions) {
  const at::Tensor flat = positions.flatten();
  return at::cat({(flat == 0).nonzero().squeeze(1), at::full({1}, flat.numel(), flat.options())});
}

PassOfBatch pass_of_batch(const runs::Batch& batch) {
  if (!batch.positions.defined()) return {batch.inputs, batch.targets, {}};
  return {batch.inputs.reshape({1, -1}),
          batch.targets.reshape({1, -1}),
          {.positions = batch.positions.reshape({1, -1}), .cu_seqlens = document_starts(batch.positions)}};
}

at::Tensor packed_loss(LanguageModelImpl& model, const runs::Batch& batch, nn::ForwardContext context) {
  const PassOfBatch pass = pass_of_batch(batch);
  context.positions = pass.context.positions;
  context.cu_seqlens = pass.context.cu_seqlens;
  return model.loss(pass.tokens, pass.targets, context);
}

}  // namespace cogwheel::tasks::language
