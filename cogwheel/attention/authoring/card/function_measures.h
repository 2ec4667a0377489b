// Properties of a map's functions f, g and N, as plain numbers: the part of a card that runs no kernel.
#pragma once
#include <string_view>

#include "cogwheel/attention/authoring/card/finite_check.h"
#include "cogwheel/attention/authoring/card/measured_map.h"
#include "cogwheel/attention/authoring/card/numerics_card.h"

namespace cogwheel::authoring {

struct FunctionMeasures {
  Finiteness finite;
  bool moves_at_zero;  // f or g changes much where rounding flips the sign of a score
};

// Adds its facts and problems to the card. `definition` is that of the catalogue's entry.
FunctionMeasures measure_functions(const MeasuredMap& map, std::string_view definition, NumericsCard& card);

}  // namespace cogwheel::authoring
