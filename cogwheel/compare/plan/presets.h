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

}  // namespace cogwheel::compare
