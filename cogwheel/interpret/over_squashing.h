// How much the last output of a model depends on each of its inputs, and what bounds it: Barbero et al., "Transformers
// need glasses! Information over-squashing in language tasks" (2024), theorem B.5, as appendix B of the paper of Cog
// attention reads it.
//
// v_i is the residual stream before the first layer at token i, y the output of the final norm at the last token n,
// gain included. All norms of matrices are spectral: the largest singular value.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::interpret {

// For each token i, [N] float64 each.
struct OverSquashing {
  // C · [Π_l (A_l / β_1 + I)]_{n,i}, C = 1/β_3 · Π_l (σ / β_2 + 1), the sum over paths of the theorem: A is the mean
  // over heads of the weights as they are, signs included, and values are read without matrices. β are means over
  // tokens of what each norm divides by, σ the largest norm of a feed-forward's derivative at any token of any layer;
  // gains of norms belong to the matrices that follow. With negative weights it bounds nothing, and may itself be
  // negative.
  at::Tensor path_product;
  at::Tensor path_magnitude;  // the same of the mean of |a|

  // At least `frozen`: sums over the same paths of norms. A head passes on |a| · ‖W_O W_V‖ / (what its norm divides by
  // at the token that it reads), a feed-forward the norm of its derivative at the token, and each is added to the 1 of
  // the stream beside it. Where heads have norms, between W_O and W_V, that of their derivative stands between the two.
  at::Tensor bound;

  at::Tensor frozen;  // ‖∂y / ∂v_i‖ with the weights of attention held fixed, as the theorem has them
  at::Tensor full;    // ‖∂y / ∂v_i‖
};

// tokens [N] int64. Takes two backward passes over `width` copies of the text. Throws UsageError for tokens of another
// shape or more than the model takes, for a model that is not in float64, and for one with layers without heads of
// attention.
OverSquashing over_squashing(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens);

}  // namespace cogwheel::interpret
