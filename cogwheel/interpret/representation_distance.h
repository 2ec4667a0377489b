// How far apart the last representations of two texts are: what a model can still tell apart at their last token.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

// tokens [N] int64 → [width] float64: the output of the final norm at the last token, gain and bias included, which the
// head reads. Without gradients, in the precision of the model. Throws UsageError for tokens of another shape, none, or
// more than the model takes.
at::Tensor last_representation(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens);

// Of y − y′. Relative ones are divided by the same norm of y: they do not change where both are scaled.
struct RepresentationDistance {
  // The largest |y − y′| of each block of consecutive components, as heads divide them, and the mean over blocks: how
  // the release of Cog attention measures collapse, divided by that of its shortest texts.
  double blocks = 0;
  double euclidean = 0, relative_euclidean = 0;
  double largest = 0, relative_largest = 0;  // p = ∞
};

// y and y′ [width]; `blocks` divides the width. Throws UsageError where it does not, or shapes differ.
RepresentationDistance representation_distance(const at::Tensor& one, const at::Tensor& other, std::int64_t blocks);

}  // namespace cogwheel::interpret
