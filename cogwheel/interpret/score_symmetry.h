// How symmetric the scores of heads are: whether what a token looks for is what it offers. Of a head, q·k = xᵀ M y with
// M = W_Qᵀ W_K, which is symmetric where keys are the queries. Positions, norms of queries and keys and biases are left
// out: M is what matrices alone make of two tokens.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

// ‖M − Mᵀ‖ / ‖M + Mᵀ‖, Frobenius, of each [..., W, W]: 0 symmetric; 1 where the symmetric and the skew part are
// equal; infinite where M is skew. NaN where M is 0. Of independent normal W_Q and W_K it is about 1 − 1/W, for
// E tr(M²) / E‖M‖² = 1/W.
at::Tensor asymmetry(const at::Tensor& matrices);
// ‖(M + Mᵀ)/2‖² / ‖M‖²: the share of the squares that the symmetric part has, 1 / (1 + asymmetry²).
at::Tensor symmetric_share(const at::Tensor& matrices);

// Of each layer M of its query heads, [heads, width, width] float64, each half of a difference a head; of grouped keys
// those that its queries read. Undefined for layers without scores. `with_gains`: the gain of the norm before is part
// of both matrices.
std::vector<at::Tensor> query_key_matrices(const tasks::language::LanguageModelImpl& model, bool with_gains);

}  // namespace cogwheel::interpret
