// The range of a map's weights and row sums, in float64.
#pragma once
#include <string_view>

#include "cogwheel/attention/authoring/card/measured_map.h"
#include "cogwheel/attention/authoring/card/numerics_card.h"

namespace cogwheel::authoring {

// Weights, and sums of a row, over 64 rows of 64 keys.
void measure_weights(const MeasuredMap& map, NumericsCard& card);

// Compares the weights with the plain formula in long double, for a map defined in one line.
void check_formula(const MeasuredMap& map, std::string_view definition, NumericsCard& card);

}  // namespace cogwheel::authoring
