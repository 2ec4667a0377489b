// A mechanism's own arguments: their names, their checks, and their conversion for operators.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// The names of a mechanism's arguments, in the order of its catalogue entry.
std::vector<std::string> parameter_names(const Mechanism& mechanism);

// Throws ValueError where a name is unknown to the mechanism (naming the right ones) or a required one is missing.
void check_parameter_names(const Mechanism& mechanism, const MechanismParameters& parameters);

// The learnable scalars of the mechanism's row map, [query heads, P] in float64, differentiable in the given tensors.
// In a difference of two maps, each sub-head has its own.
at::Tensor row_map_parameters(const Mechanism& mechanism, const MechanismParameters& parameters,
                              const at::Tensor& query);

// The result of row_map_parameters for a map without scalars, [query heads, 0].
at::Tensor no_parameters(const at::Tensor& query);

// λ as [B or 1, H or 1, N or 1] for an output [B, 2H, N, Dv] of adjacent sub-heads.
at::Tensor mixture_coefficient(const MechanismParameters& parameters, const at::Tensor& output);

}  // namespace cogwheel::ops
