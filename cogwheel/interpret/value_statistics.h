// What the values of a head are as a cloud of points: where its centre lies, how many directions it fills, and whether
// it is a normal distribution. The paper of Cog attention supposes that v is about normal with mean 0.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::interpret {

struct ValueStatistics {
  double bias = 0;              // ‖E v‖ / √E‖v‖², as nn/hooks/head_statistics.h has it
  double effective_rank = 0;    // exp(−Σ p log p) of p = λ / Σλ, λ the eigenvalues of the covariance
  double largest_share = 0;     // λ₁ / Σλ
  std::int64_t directions = 0;  // r, of λ above λ₁ · D · 2⁻⁵²: in these the following is measured
  // Mardia's kurtosis b = E[((v − E v)ᵀ Σ⁻¹ (v − E v))²] over r(r + 2), what normal points have: above 1 where some lie
  // far out. Mardia, "Measures of multivariate skewness and kurtosis with applications" (1970).
  double kurtosis = 0;
  // By how many deviations b differs from what n normal points have, (b − r(r+2)(n−1)/(n+1)) / √(8r(r+2)/n).
  double kurtosis_z = 0;
};

// values [n, D], computed in float64. The last two are NaN for n ≤ 2r. Throws UsageError for another shape, fewer than
// two points, or numbers that are not finite.
ValueStatistics value_statistics(const at::Tensor& values);

}  // namespace cogwheel::interpret
