// Rows that hold several documents, of which each is to see only itself.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {

// Where the documents of all rows begin, one row after another, and the end of the last: [documents + 1] int64.
at::Tensor document_starts(const at::Tensor& positions);

// What a pass takes of a batch; the rows of one with positions become one row, as below. Of one that ranks share, the
// tokens of this rank.
struct PassOfBatch {
  at::Tensor tokens, targets;
  nn::ForwardContext context;
  double share = 1;  // of its targets among all
};
PassOfBatch pass_of_batch(const runs::Batch& batch);

// The loss of a batch, or this rank's part of it. The rows of one with positions become one, [1, B·N], in which each
// document is a sequence of its own (ForwardContext::cu_seqlens): one that a row cuts is one in each of them.
at::Tensor packed_loss(LanguageModelImpl& model, const runs::Batch& batch, nn::ForwardContext context);

}  // namespace cogwheel::tasks::language
