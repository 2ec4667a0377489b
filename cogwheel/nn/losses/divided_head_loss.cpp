#include "cogwheel/nn/losses/divided_head_loss.h"

#include <torch/types.h>

#include "cogwheel/nn/losses/head_blocks.h"
#include "cogwheel/nn/ranks/divided_embedding.h"

namespace cogwheel::nn {
namespace {

// Of a row's own logits.
enum Number : std::int64_t { largest, sum, target, numbers };

at::Tensor wide(const at::Tensor& logits) {
  return logits.to(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace

at::Tensor divided_head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& targets, const SharedHeads& ranks, std::int64_t logits_bytes) {
  expect_tokens("head_loss", "rows [n, width]", x, targets, weight.size(0) * ranks.count());
  return loss_of_blocks(
      "DividedHeadLossBackward", x, weight, bias, logits_bytes,
      [&](const at::Tensor& logits, std::int64_t first, double weight_of_row) {
        const auto [places, are_own] = places_in_share(targets.narrow(0, first, logits.size(0)), logits.size(1), ranks);
        const at::Tensor columns = places.unsqueeze(1), own = are_own;
        const at::Tensor found = numbers_in_slices(logits, numbers, [&](std::int64_t begin, std::int64_t end) {
          const at::Tensor part = wide(logits.slice(0, begin, end)), most = part.amax(1);
          const at::Tensor of_target = part.gather(1, columns.slice(0, begin, end)).squeeze(1);
          return at::stack({most, (part - most.unsqueeze(1)).exp_().sum(1),
                            at::where(own.slice(0, begin, end), of_target, at::zeros({}, part.options()))},
                           1);
        });
        const at::Tensor all = ranks.of_each(found, "logits of the vocabulary");  // [ranks, m, numbers]
        const at::Tensor most = all.select(2, largest).amax(0);
        const at::Tensor sums = (all.select(2, sum) * (all.select(2, largest) - most).exp()).sum(0);
        const at::Tensor log_sum = most + sums.log();
        if (weight_of_row != 0)
          numbers_in_slices(logits, 0, [&](std::int64_t begin, std::int64_t end) {
            at::Tensor kept = logits.slice(0, begin, end);
            at::Tensor gradient = (wide(kept) - log_sum.slice(0, begin, end).unsqueeze(1)).exp_();
            gradient.scatter_add_(1, columns.slice(0, begin, end),
                                  own.slice(0, begin, end).unsqueeze(1).to(gradient.scalar_type()).neg());
            kept.copy_(gradient.mul_(weight_of_row));
            return at::Tensor();
          });
        return (log_sum - all.select(2, target).sum(0)) / static_cast<double>(ranks.count());
      });
}

}  // namespace cogwheel::nn
