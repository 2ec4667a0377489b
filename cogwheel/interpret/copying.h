// Whether a head copies what it reads or deletes it: the eigenvalues of its circuit from tokens read to logits written,
// or of its values and output alone, Σ λ / Σ |λ|. 1: it raises whatever it attends to; −1: it lowers it; about 0:
// neither. Elhage et al., "A Mathematical Framework for Transformer Circuits" (2021).
//
// A negative weight turns the sign: a head with positivity 1 deletes what it weighs negatively.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "cogwheel/nn/token_mixer.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

struct CopyingScores {
  at::Tensor bare;  // [layers, heads], of output · value
  at::Tensor full;  // of unembedding · gain · output · value · gain · embedding, [vocabulary, vocabulary]
  // Of random matrices of the same shapes, entries normal: the deviation of the bare one around 0, by which to tell
  // chance.
  double null_deviation = 0;
};

// NaN in layers without heads. No matrix is larger than [width, width]: a product's eigenvalues other than 0 are those
// of its factors in the other order.
CopyingScores copying_scores(const tasks::language::LanguageModelImpl& model);

// Σ λ / Σ |λ| of each [..., D, D]; NaN where all are 0.
at::Tensor eigenvalue_positivity(const at::Tensor& matrices);

}  // namespace cogwheel::interpret
