#include "cogwheel/nn/token_loss.h"

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {
namespace {

// Logits of a block, in float32, as one thread keeps them in its cache.
constexpr std::int64_t block_logits = 1 << 18;

void expect_tokens(const std::string& what, const std::string& rows, const at::Tensor& x, const at::Tensor& targets,
                   std::int64_t vocabulary) {
  if (x.dim() != 2 || x.size(0) == 0 || targets.dim() != 1 || targets.size(0) != x.size(0))
    throw Error(expected_got(what, rows + " and targets [n], n at least 1",
                             shape_text(x.sizes()) + " and " + shape_text(targets.sizes())));
  if (!targets.is_cpu()) return;  // to look at them would stop the device
  const auto least = targets.min().item<std::int64_t>(), largest = targets.max().item<std::int64_t>();
  if (least < 0 || largest >= vocabulary)
    throw Error(expected_got(what + ": targets", "0 to " + std::to_string(vocabulary - 1),
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

// The losses of all tokens, as losses_of of some, by several threads.
at::Tensor all_losses(const at::Tensor& logits, const at::Tensor& targets, double smoothing, double weight) {
  const std::int64_t tokens = logits.size(0), rows = std::max<std::int64_t>(1, block_logits / logits.size(1));
  if (!logits.is_cpu()) return losses_of(logits, targets, smoothing, weight);
  const at::ScalarType type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor losses = at::empty({tokens}, logits.options().dtype(type));
  at::parallel_for(0, (tokens + rows - 1) / rows, 1, [&](std::int64_t first, std::int64_t last) {
    const torch::NoGradGuard none;  // of this thread
    for (std::int64_t each = first; each < last; ++each) {
      const std::int64_t begin = each * rows, end = std::min(tokens, begin + rows);
      losses.slice(0, begin, end)
          .copy_(losses_of(logits.slice(0, begin, end), targets.slice(0, begin, end), smoothing, weight));
    }
  });
  return losses;
}

// Backward hands on gradients that are already there, of a loss with respect to `inputs`.
void record_gradients(const char* name, const ops::variable_list& inputs, const at::Tensor& loss,
                      const ops::variable_list& gradients) {
  ops::record_saving(
      name, inputs, {loss}, {.inputs = {}, .outputs = {}, .constants = gradients},
      [name](const ops::variable_list&, const ops::variable_list& kept, const ops::variable_list& outer) {
        if (at::GradMode::is_enabled())
          throw std::logic_error(std::string(name) + ": expected a backward pass without create_graph");
        if (outer[0].is_cpu() && outer[0].item<double>() == 1) return kept;
        ops::variable_list scaled = kept;
        for (at::Tensor& each : scaled)
          if (each.defined()) each = each * outer[0].to(each.scalar_type());
        return scaled;
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
  const std::int64_t tokens = x.size(0), vocabulary = weight.size(0);
  const std::int64_t rows =
      std::clamp<std::int64_t>(logits_bytes / (vocabulary * static_cast<std::int64_t>(sizeof(float))), 1, tokens);
  const bool record = ops::needs_record({x, weight, bias});
  at::Tensor loss, of_x, of_weight, of_bias;
  {
    const torch::NoGradGuard no_grad;
    const at::ScalarType type = product_type(x);
    const at::Tensor matrix = weight.detach().to(type), read = x.detach();
    const at::Tensor offset = bias.defined() ? bias.detach().to(type) : bias;
    if (record) of_x = at::empty_like(read, at::MemoryFormat::Contiguous);
    std::vector<at::Tensor> losses;
    for (std::int64_t first = 0; first < tokens; first += rows) {
      const std::int64_t count = std::min(rows, tokens - first);
      const at::Tensor part = read.narrow(0, first, count).to(type);
      const at::Tensor logits = matrix_product(part, matrix, offset);
      losses.push_back(
          all_losses(logits, targets.narrow(0, first, count), 0, record ? 1 / static_cast<double>(tokens) : 0));
      if (!record) continue;
      // From here on they are the gradient of the loss.
      of_x.narrow(0, first, count).copy_(matrix_product(logits, matrix.t()));
      const at::Tensor added = matrix_product(logits.t(), part.t());
      of_weight = of_weight.defined() ? of_weight.add_(added) : added.to(weight.scalar_type());
      if (!offset.defined()) continue;
      const at::Tensor summed = logits.sum(0, false, bias.scalar_type());
      of_bias = of_bias.defined() ? of_bias.add_(summed) : summed;
    }
    loss = at::cat(losses).mean();
  }
  if (record) record_gradients("HeadLossBackward", {x, weight, bias}, loss, {of_x, of_weight, of_bias});
  return loss;
}

}  // namespace cogwheel::nn
