// What follows in the options of training from the number of steps and the learning rate of a comparison.
#pragma once
#include <cstdint>

#include "cogwheel/runs/configuration/training_options.h"

namespace cogwheel::compare {

// The schedule for that many steps: ten evaluations, a warm-up of at most a tenth, reports often enough for a display.
runs::TrainingOptions with_steps(runs::TrainingOptions training, std::int64_t steps);
// Another learning rate, whose final one is the same share of it.
runs::TrainingOptions with_rate(runs::TrainingOptions training, double rate);

}  // namespace cogwheel::compare
