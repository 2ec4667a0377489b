#include "cogwheel/nn/losses/token_loss.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/nn/losses/head_blocks.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {
namespace {

// The losses of some tokens [m]; their logits [m, V] become the gradient of the sum of losses times `weight`, unless
// that is 0.
at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& targets, double smoothing, double weight) {
  const double vocabulary = static_cast<double>(logits.size(1));
  const at::Tensor places = targets.unsqueeze(1);
  at::Tensor log_p = at::log_softmax(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), 1);
  at::Tensor losses = log_p.gather(1, places).squeeze(1) * (smoothing - 1);
  if (smoothing > 0) losses -= log_p.sum(1) * (smoothing / vocabulary);
  if (weight == 0) return losses;
  at::Tensor gradient = log_p.exp_();
  if (smoothing > 0) gradient -= smoothing / vocabulary;
  gradient.scatter_add_(1, places, at::full_like(places, smoothing - 1, gradient.options()));
  at::Tensor kept = logits;
  kept.copy_(gradient.mul_(weight));
  return losses;
}

// The losses of all tokens, as losses_of of some, by several threads.
at::Tensor all_losses(const at::Tensor& logits, const at::Tensor& targets, double smoothing, double weight) {
  return losses_in_slices(logits, [&](std::int64_t begin, std::int64_t end) {
    return losses_of(logits.slice(0, begin, end), targets.slice(0, begin, end), smoothing, weight);
  });
}

}  // namespace

at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  expect_tokens("token_loss", "logits [n, V]", logits, targets, logits.dim() == 2 ? logits.size(1) : 0);
  const bool record = ops::needs_record({logits});
  at::Tensor loss, gradient;
  {
    const torch::NoGradGuard no_grad;
    gradient = logits.detach();
    loss = all_losses(gradient, targets, smoothing, record ? 1 / static_cast<double>(logits.size(0)) : 0).mean();
  }
  if (record) record_gradients("TokenLossBackward", {logits}, loss, {gradient});
  return loss;
}

at::Tensor head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& targets,
                     std::int64_t logits_bytes) {
  expect_tokens("head_loss", "rows [n, width]", x, targets, weight.size(0));
  return loss_of_blocks("HeadLossBackward", x, weight, bias, logits_bytes,
                        [&](const at::Tensor& logits, std::int64_t first, double weight_of_row) {
                          return all_losses(logits, targets.narrow(0, first, logits.size(0)), 0, weight_of_row);
                        });
}

}  // namespace cogwheel::nn
