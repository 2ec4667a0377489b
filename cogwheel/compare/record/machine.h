// The machine on which a comparison ran.
#pragma once
#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

Comparison::Machine this_machine();

}  // namespace cogwheel::compare
