// Whether results that were read can be those of a comparison: everything after may rely on it.
#pragma once
#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

// Throws Error naming the first key that cannot be: "settings.seeds: expected …, got …".
void expect_sound(const Comparison& comparison);

}  // namespace cogwheel
