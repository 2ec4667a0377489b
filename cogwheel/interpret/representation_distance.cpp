#include "cogwheel/interpret/representation_distance.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

at::Tensor last_representation(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  const torch::NoGradGuard no_gradient;
  if (tokens.dim() != 1 || tokens.numel() == 0 || tokens.scalar_type() != at::kLong)
    throw UsageError(expected_got("last representation: tokens", "int64 [tokens], one or more",
                                  std::string(at::toString(tokens.scalar_type())) + " " + shape_text(tokens.sizes())));
  at::Tensor last;
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::final_norm,
             [&](const nn::HookPoint&, const at::Tensor& value) { last = value.select(1, value.size(1) - 1)[0]; });
  model.forward(tokens.unsqueeze(0), {.hooks = &hooks});
  const nn::Norm& norm = model.final_norm();
  last = last.to(at::kDouble) * norm->gain().to(at::kDouble);
  return norm->bias().defined() ? last + norm->bias().to(at::kDouble) : last;
}

RepresentationDistance representation_distance(const at::Tensor& one, const at::Tensor& other, std::int64_t blocks) {
  if (one.dim() != 1 || one.sizes() != other.sizes())
    throw UsageError(expected_got("representations", "two of one shape, [width]",
                                  shape_text(one.sizes()) + " and " + shape_text(other.sizes())));
  if (blocks < 1 || one.numel() % blocks != 0)
    throw UsageError(
        expected_got("representations: blocks", "a divisor of " + std::to_string(one.numel()), std::to_string(blocks)));
  const at::Tensor difference = (one - other).abs().to(at::kDouble), first = one.to(at::kDouble);
  RepresentationDistance found;
  found.blocks = difference.view({blocks, -1}).amax(1).mean().item<double>();
  found.euclidean = difference.norm().item<double>();
  found.relative_euclidean = found.euclidean / first.norm().item<double>();
  found.largest = difference.max().item<double>();
  found.relative_largest = found.largest / first.abs().max().item<double>();
  return found;
}

}  // namespace cogwheel::interpret
