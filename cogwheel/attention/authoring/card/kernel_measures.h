// How well the kernels compute a map, measured by running them.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/card/finite_check.h"
#include "cogwheel/attention/authoring/card/measured_map.h"
#include "cogwheel/attention/authoring/card/numerics_card.h"

namespace cogwheel::authoring {

// Outputs and gradients of the fp32 kernel that are not finite at scores within `range`: one problem, or none.
void check_kernel(const MeasuredMap& map, const Finiteness& range, NumericsCard& card);

// fp32 outputs against float64.
void measure_errors(const MeasuredMap& map, NumericsCard& card);

// The share of scores whose sign rounding flips.
void measure_flips(bool moves_at_zero, NumericsCard& card);

// Whether the number of threads changes any bit.
void measure_determinism(const MeasuredMap& map, NumericsCard& card);

}  // namespace cogwheel::authoring
