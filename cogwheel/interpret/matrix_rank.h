// How many directions a matrix uses, and the matrices of which one asks: scores, powers, exponentials and weights of a
// head.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cogwheel::interpret {

struct MatrixRank {
  std::vector<double> singular_values;  // σ₁ ≥ σ₂ ≥ …
  std::int64_t numerical = 0;           // of those above σ₁ · max(rows, columns) · 2⁻⁵², as NumPy counts
  double effective = 0;       // exp(−Σ p log p) of p = σ / Σσ (Roy and Vetterli 2007); 0 of a zero matrix
  double stable = 0;          // Σσ² / σ₁²; 0 of a zero matrix
  double negative_share = 0;  // of the entries
};

// Of [rows, columns], computed in float64. Throws UsageError for another shape, or numbers that are not finite.
MatrixRank matrix_rank(const at::Tensor& matrix);

struct NamedMatrix {
  std::string name;   // "QKᵀ, causal"
  at::Tensor values;  // [N, N] float64
};

// Of one head: query and key [N, D]. In this order, and each that is not symmetric also with later keys hidden:
//
//   QKᵀ            S = QKᵀ/√D, of rank D at most
//   QQᵀ            A = norm · QQᵀ / ‖QQᵀ‖₂, of the same rank, and with eigenvalues ≥ 0
//   A², A³         of the same rank (A² = QMQᵀ with M = QᵀQ)
//   exp(A)         the matrix exponential: I plus a matrix of rank D, so of full rank
//   exp(A) − I     of rank D (f(A) = f(0) I + Q g(M) Qᵀ)
//   exp of S       entry by entry
//   softmax, Cog   the weights of S
//
// `norm` is the largest eigenvalue of A: far above 30, I would be lost in the rounding of exp(A).
std::vector<NamedMatrix> score_matrices(const at::Tensor& query, const at::Tensor& key, double norm);

}  // namespace cogwheel::interpret
