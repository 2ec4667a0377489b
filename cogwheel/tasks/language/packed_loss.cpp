#include "cogwheel/tasks/language/packed_loss.h"

#include <torch/types.h>

#include <utility>

#include "cogwheel/nn/ranks/shared_pass.h"

namespace cogwheel::tasks::language {

at::Tensor document_starts(const at::Tensor& positions) {
  const at::Tensor flat = positions.flatten();
  return at::cat({(flat == 0).nonzero().squeeze(1), at::full({1}, flat.numel(), flat.options())});
}

namespace {

PassOfBatch whole_pass(const runs::Batch& batch) {
  if (!batch.positions.defined()) return {batch.inputs, batch.targets, {}};
  return {batch.inputs.reshape({1, -1}),
          batch.targets.reshape({1, -1}),
          {.positions = batch.positions.reshape({1, -1}), .cu_seqlens = document_starts(batch.positions)}};
}

std::int64_t told(const at::Tensor& targets) { return runs::told_targets({.inputs = targets, .targets = targets}); }

}  // namespace

PassOfBatch pass_of_batch(const runs::Batch& batch) {
  PassOfBatch pass = whole_pass(batch);
  pass.context.heads = batch.heads;
  if (batch.texts == nullptr) return pass;
  const std::int64_t all = told(pass.targets);
  if (!pass.context.positions.defined())
    pass.context.positions = at::arange(pass.tokens.size(1), at::kLong).expand_as(pass.tokens);
  for (at::Tensor* const each : {&pass.tokens, &pass.targets, &pass.context.positions})
    *each = batch.texts->own_tokens(*each, 1);
  pass.context.texts = batch.texts;
  pass.share = all == 0 ? 0 : static_cast<double>(told(pass.targets)) / static_cast<double>(all);
  return pass;
}

at::Tensor packed_loss(LanguageModelImpl& model, const runs::Batch& batch, nn::ForwardContext context) {
  const PassOfBatch pass = pass_of_batch(batch);
  context.positions = pass.context.positions;
  context.cu_seqlens = pass.context.cu_seqlens;
  context.texts = pass.context.texts;
  context.heads = pass.context.heads;
  if (context.texts == nullptr) return model.loss(pass.tokens, pass.targets, context);
  context.dropout = context.dropout.of_rank(context.texts->rank());
  return model.loss(pass.tokens, pass.targets, context) * pass.share;
}

}  // namespace cogwheel::tasks::language
