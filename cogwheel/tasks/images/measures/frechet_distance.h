// The Fréchet distance between two Gaussians with the moments of two sets of features.
#pragma once
#include <cstdint>

#include "cogwheel/tasks/images/measures/feature_statistics.h"

namespace cogwheel::tasks::images {

struct FrechetDistance {
  double value = 0;  // squared, as is usual: |μ₁ − μ₂|² + tr(C₁ + C₂ − 2 (C₁ C₂)^½)
  double means = 0;  // its first term
  // Eigenvalues below 0, of both covariances, which have none but by rounding: they count as 0.
  std::int64_t negative_eigenvalues = 0;
  // The most negative one, as a share of the largest of its covariance: up to 1e-12 in float64, 1e-6 of a file whose
  // numbers were float32.
  double most_negative = 0;
};

// Dowson and Landau, "The Fréchet distance between multivariate normal distributions" (1982); of features of
// Inception-v3, Heusel et al., "GANs Trained by a Two Time-Scale Update Rule" (2017), eq. 6.
//
// tr (C₁ C₂)^½ = tr (C₁^½ C₂ C₁^½)^½ is the sum of the singular values of S₁ᵀ S₂ for C = S Sᵀ, with S from the
// eigenvectors of C. Singular values err by 1e-16 of the largest; the square roots of the eigenvalues of a product
// would err by 1e-8 of it wherever an eigenvalue is 0, as most are with fewer images than features. Eigenvalues that
// cannot be told from 0, up to features · 2⁻⁵² of the largest, count as 0.
//
// Throws Error where widths differ, a number is not finite, or a covariance is none: an eigenvalue below −1e-3 of the
// largest.
FrechetDistance frechet_distance(const FeatureMoments& first, const FeatureMoments& second);

}  // namespace cogwheel::tasks::images
