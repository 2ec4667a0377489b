#include "cogwheel/nn/losses/head_blocks.h"

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::nn {

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

at::Tensor numbers_in_slices(const at::Tensor& logits, std::int64_t count, const OfSlice& some) {
  // Logits of a slice, in float32, as one thread keeps them in its cache.
  constexpr std::int64_t slice_logits = 1 << 18;
  const std::int64_t tokens = logits.size(0), rows = std::max<std::int64_t>(1, slice_logits / logits.size(1));
  if (!logits.is_cpu() && !logits.is_meta()) return some(0, tokens);
  const at::ScalarType type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor numbers = at::empty({tokens, count}, logits.options().dtype(type));
  if (logits.is_meta()) return numbers;
  at::parallel_for(0, (tokens + rows - 1) / rows, 1, [&](std::int64_t first, std::int64_t last) {
    const torch::NoGradGuard none;  // of this thread
    for (std::int64_t each = first; each < last; ++each) {
      const std::int64_t begin = each * rows, end = std::min(tokens, begin + rows);
      const at::Tensor made = some(begin, end);
      if (count > 0) numbers.slice(0, begin, end).copy_(made);
    }
  });
  return numbers;
}

at::Tensor losses_in_slices(const at::Tensor& logits, const OfSlice& some) {
  return numbers_in_slices(logits, 1,
                           [&](std::int64_t begin, std::int64_t end) { return some(begin, end).unsqueeze(1); })
      .squeeze(1);
}

void record_gradients(const char* name, const std::vector<at::Tensor>& inputs, const at::Tensor& loss,
                      const std::vector<at::Tensor>& gradients) {
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

at::Tensor loss_of_blocks(const char* name, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          std::int64_t logits_bytes, const BlockLoss& block_loss) {
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
    // Where there are shapes alone, two blocks show all that is there at a time.
    const std::int64_t last = x.is_meta() ? std::min(tokens, 2 * rows) : tokens;
    for (std::int64_t first = 0; first < last; first += rows) {
      const std::int64_t count = std::min(rows, tokens - first);
      const at::Tensor part = read.narrow(0, first, count).to(type);
      const at::Tensor logits = matrix_product(part, matrix, offset);
      losses.push_back(block_loss(logits, first, record ? 1 / static_cast<double>(tokens) : 0));
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
  if (record) record_gradients(name, {x, weight, bias}, loss, {of_x, of_weight, of_bias});
  return loss;
}

}  // namespace cogwheel::nn
