// Checks that results from a file can be those of a comparison, so that all later code may rely on it.
#pragma once
#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

// Throws Error that names the first key with an invalid value: "settings.seeds: expected …, got …".
void expect_sound(const Comparison& comparison);

}  // namespace cogwheel::compare
