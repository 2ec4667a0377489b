// How unlike the heads of a layer are.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel::interpret {

// maps [..., H, N, N] of a causal layer → [..., H, H] float64: the mean over queries that see two keys or more of
// ½ Σ_j |a_ij − a'_ij|. Of weights with Σ|a| = 1 it is 0 for the same map and 1 where no key has weights of one sign in
// both. Signs count: equal |a| with signs at random are 0.5 apart, so pass maps.abs() to compare places alone. Throws
// UsageError for another shape, or fewer than two tokens.
at::Tensor head_distances(const at::Tensor& maps);

// distances [..., H, H] → [...]: the mean over the pairs of different heads; NaN where there is one head.
at::Tensor mean_head_distance(const at::Tensor& distances);

}  // namespace cogwheel::interpret
