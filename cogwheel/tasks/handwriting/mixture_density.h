// The distribution of the next point of a pen: a mixture of bivariate Gaussians for the offset, and a coin for whether
// the pen is lifted. Graves, "Generating Sequences With Recurrent Neural Networks" (2013), equations 15 to 26.
//
// Of a row y of 1 + 6 M numbers, in this order, each but the first of M:
//   e = sigmoid(ê),  π = softmax(π̂),  μ,  μ′,  σ = exp(σ̂),  σ′ = exp(σ̂′),  ρ = tanh(ρ̂)
//   p(x, x′) = Σ_m π_m N(x, x′ | μ_m, μ′_m, σ_m, σ′_m, ρ_m)
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "cogwheel/tasks/handwriting/stroke_point.h"

namespace cogwheel::tasks::handwriting {

constexpr std::int64_t mixture_width(std::int64_t mixtures) { return 1 + 6 * mixtures; }

// −log p of each point, in nats: y [P, 1 + 6 M], points [P, 3] → [P] float64. Nothing is clipped: with
// d = (x − μ)/σ, d′ alike, and r = ρ̂,
//   (d² + d′² − 2ρdd′) / (2(1 − ρ²)) = ((d − d′)² (1 + e^{2r}) + (d + d′)² (1 + e^{−2r})) / 8
//   log(1 − ρ²) = 2 (log 2 − |r| − log(1 + e^{−2|r|}))
// so that neither ρ near ±1 nor a far point makes 0/0. The sum over the mixture is one of logarithms.
at::Tensor negative_log_likelihood(const at::Tensor& y, const at::Tensor& points);

// A point drawn from a row y [1 + 6 M]. A bias b ≥ 0 narrows the distribution: σ = exp(σ̂ − b), π = softmax(π̂ (1 + b)).
// `uniform` returns numbers in [0, 1). Throws Error where y is not finite.
StrokePoint draw_point(const at::Tensor& y, double bias, const std::function<double()>& uniform);

}  // namespace cogwheel::tasks::handwriting
