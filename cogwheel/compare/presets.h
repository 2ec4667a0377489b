// The sizes at which mechanisms are compared: of language models, and those that tasks name.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/runs/task_entry.h"

namespace cogwheel::compare {

// The default comes first.
std::span<const runs::Preset> presets();

// Throws UsageError with the nearest names.
const runs::Preset& find_preset(std::string_view name);

// The schedule for that many steps: ten evaluations, a warm-up of at most a tenth, reports often enough for a display.
runs::TrainingOptions with_steps(runs::TrainingOptions training, std::int64_t steps);
// Another learning rate, whose final one is the same share of it.
runs::TrainingOptions with_rate(runs::TrainingOptions training, double rate);

}  // namespace cogwheel::compare
