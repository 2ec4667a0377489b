// Every key of a config and the member that holds its value: parsing, overriding and writing use this one table.
#pragma once
#include <string_view>
#include <vector>

#include "cogwheel/runs/configuration/config_field.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::runs {

// In the order in which they are written. Of the task's options, which only the task knows, those that are set.
std::vector<ConfigField> config_fields(RunConfig& config);

// Throws UsageError with the nearest keys. A key of [task] that is not set yet becomes one.
ConfigSlot find_slot(RunConfig& config, std::string_view key, std::string_view what);

}  // namespace cogwheel::runs
