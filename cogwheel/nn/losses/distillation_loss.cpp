#include "cogwheel/nn/losses/distillation_loss.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/losses/head_blocks.h"
#include "cogwheel/nn/weights/matrix_product.h"

namespace cogwheel::nn {
namespace {

struct Distillation {
  double share, temperature;
};

at::Tensor widened(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

// As a BlockLoss, of some rows. Where the share is 1, targets have no part in it.
at::Tensor distilled_losses(const at::Tensor& logits, const at::Tensor& theirs, const at::Tensor& targets,
                            const Distillation& by, double weight) {
  const at::Tensor places = targets.unsqueeze(1), given = widened(logits);
  const at::Tensor log_p = at::log_softmax(widened(theirs) / by.temperature, 1).to(given.scalar_type());
  const at::Tensor log_q = at::log_softmax(by.temperature == 1 ? given : given / by.temperature, 1);
  const at::Tensor p = log_p.exp();
  at::Tensor losses = (p * (log_p - log_q)).sum(1) * (by.share * by.temperature * by.temperature);
  const bool plain = by.share < 1;
  const at::Tensor own = !plain ? at::Tensor() : by.temperature == 1 ? log_q : at::log_softmax(given, 1);
  if (plain) losses -= own.gather(1, places).squeeze(1) * (1 - by.share);
  if (weight == 0) return losses;
  at::Tensor gradient = (log_q.exp() - p) * (by.share * by.temperature);
  if (plain) {
    gradient.add_(own.exp(), 1 - by.share);
    gradient.scatter_add_(1, places, at::full_like(places, by.share - 1, gradient.options()));
  }
  at::Tensor kept = logits;
  kept.copy_(gradient.mul_(weight));
  return losses;
}

}  // namespace

at::Tensor distilled_head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const at::Tensor& targets, const TeacherHead& teacher, double share, double temperature,
                               std::int64_t logits_bytes) {
  expect_tokens("distilled_head_loss", "rows [n, width]", x, targets, weight.size(0));
  if (teacher.x.size(0) != x.size(0) || teacher.weight.size(0) != weight.size(0))
    throw Error(expected_got("distilled_head_loss: teacher", "as many rows and words as the model",
                             shape_text(teacher.x.sizes()) + " and " + shape_text(teacher.weight.sizes())));
  const Distillation by{share, temperature};
  return loss_of_blocks("DistilledHeadLossBackward", x, weight, bias, logits_bytes / 2,
                        [&](const at::Tensor& logits, std::int64_t first, double weight_of_row) {
                          const std::int64_t count = logits.size(0);
                          const at::Tensor theirs = matrix_product(teacher.x.narrow(0, first, count), teacher.weight,
                                                                   teacher.bias),
                                           told = targets.narrow(0, first, count);
                          return losses_in_slices(logits, [&](std::int64_t begin, std::int64_t end) {
                            return distilled_losses(logits.slice(0, begin, end), theirs.slice(0, begin, end),
                                                    told.slice(0, begin, end), by, weight_of_row);
                          });
                        });
}

}  // namespace cogwheel::nn
