#include "cogwheel/nn/token_loss.h"

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {
namespace {

// Logits of a block, in float32, as one thread keeps them in its cache.
constexpr std::int64_t block_logits = 1 << 18;

void expect_tokens(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || logits.size(0) == 0 || targets.dim() != 1 || targets.size(0) != logits.size(0))
    throw Error(expected_got("token_loss", "logits [n, V] and targets [n], n at least 1",
                             shape_text(logits.sizes()) + " and " + shape_text(targets.sizes())));
  if (!targets.is_cpu()) return;  // to look at them would stop the device
  const auto least = targets.min().item<std::int64_t>(), largest = targets.max().item<std::int64_t>();
  if (least < 0 || largest >= logits.size(1))
    throw Error(expected_got("token_loss: targets", "0 to " + std::to_string(logits.size(1) - 1),
                             std::to_string(least) + " to " + std::to_string(largest)));
}

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

}  // namespace

at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  expect_tokens(logits, targets);
  const bool record = ops::needs_record({logits});
  const std::int64_t tokens = logits.size(0), rows = std::max<std::int64_t>(1, block_logits / logits.size(1));
  at::Tensor loss, gradient;
  {
    const torch::NoGradGuard no_grad;
    gradient = logits.detach();
    const double weight = record ? 1 / static_cast<double>(tokens) : 0;
    const at::ScalarType type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor losses = at::empty({tokens}, logits.options().dtype(type));
    const auto block = [&](std::int64_t begin, std::int64_t end) {
      const torch::NoGradGuard none;  // of this thread
      losses.slice(0, begin, end)
          .copy_(losses_of(gradient.slice(0, begin, end), targets.slice(0, begin, end), smoothing, weight));
    };
    if (logits.is_cpu())
      at::parallel_for(0, (tokens + rows - 1) / rows, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t each = first; each < last; ++each) block(each * rows, std::min(tokens, (each + 1) * rows));
      });
    else
      block(0, tokens);
    loss = losses.mean();
  }
  if (!record) return loss;
  ops::record_saving(
      "TokenLossBackward", {logits}, {loss}, {.inputs = {}, .outputs = {}, .constants = {gradient}},
      [](const ops::variable_list&, const ops::variable_list& kept, const ops::variable_list& gradients) {
        if (at::GradMode::is_enabled())
          throw std::logic_error("token_loss: expected a backward pass without create_graph");
        const at::Tensor& outer = gradients[0];
        if (outer.is_cpu() && outer.item<double>() == 1) return ops::variable_list{kept[0]};
        return ops::variable_list{kept[0] * outer.to(kept[0].scalar_type())};
      });
  return loss;
}

}  // namespace cogwheel::nn
