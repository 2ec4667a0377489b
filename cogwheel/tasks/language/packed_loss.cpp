#include "cogwheel/tasks/language/packed_loss.h"

#include <torch/types.h>

#include <utility>

namespace cogwheel::tasks::language {

at::Tensor document_starts(const at::Tensor& positions) {
  const at::Tensor flat = positions.flatten();
  return at::cat({(flat == 0).nonzero().squeeze(1), at::full({1}, flat.numel(), flat.options())});
}

at::Tensor packed_loss(LanguageModelImpl& model, const runs::Batch& batch, nn::ForwardContext context) {
  context.positions = batch.positions.reshape({1, -1});
  context.cu_seqlens = document_starts(batch.positions);
  return model.loss(batch.inputs.reshape({1, -1}), batch.targets.reshape({1, -1}), context);
}

}  // namespace cogwheel::tasks::language
