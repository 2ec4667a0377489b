// How much a model needs each of its heads: by how much the loss of a text changes, to first order, as a head's output
// is scaled from 1. Michel, Levy and Neubig, "Are Sixteen Heads Really Better than One?" (2019), section 4.1.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "cogwheel/interpret/head_edits.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

// By layer, [heads of the output] float64: the mean over texts of |∂L/∂ξ|, ξ the factor of the head's output, L the
// mean loss of the text. Undefined for layers without heads. tokens and targets [texts, N]; a pass and its derivatives
// for each text.
std::vector<at::Tensor> head_importance(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens,
                                        const at::Tensor& targets);

// Heads from the least to the most important, of all layers together. The importances of a layer are divided by their
// Euclidean norm first, as in that paper: without this, heads of one layer come first.
std::vector<HeadPlace> from_least_important(const std::vector<at::Tensor>& importance);

}  // namespace cogwheel::interpret
