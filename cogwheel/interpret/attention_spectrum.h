// Where the eigenvalues of an attention matrix lie. That of a causal one are its diagonal, what each token weighs
// itself with, whatever else it weighs; what it can do to a vector is said by its symmetric part, whose eigenvalues
// bound xᵀAx / xᵀx, and by its singular values.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "cogwheel/nn/hooks/hooks.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

struct AttentionSpectrum {
  double least = 0, largest = 0;  // real parts of the eigenvalues
  double imaginary = 0;           // the largest magnitude of an imaginary part
  double radius = 0, second = 0;  // the largest magnitude of an eigenvalue, and the next, multiplicities counted
  double least_symmetric = 0, largest_symmetric = 0;  // eigenvalues of (A + Aᵀ) / 2
  double largest_singular = 0;
};

// Of [N, N], N ≥ 2, computed in float64; of a triangular matrix the eigenvalues are exactly its diagonal. Throws
// UsageError for another shape, or numbers that are not finite.
AttentionSpectrum attention_spectrum(const at::Tensor& matrix);

// By layer [heads, N, N] float64: what each layer's weights would be if every token saw all, of the same queries and
// keys, as an encoder's are. `tokens` [1, N]. Undefined for layers without scores, with a window or ALiBi, which have
// no such form.
std::vector<at::Tensor> unmasked_attention(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens);

}  // namespace cogwheel::interpret
