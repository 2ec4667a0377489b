// What all runs of a comparison share, as it is recorded in results.json.
#pragma once
#include <string>

#include "cogwheel/configuration/run_config.h"
#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

// Comparison::configuration: all of a configuration but what is said of the data or decided run by run.
std::string shared_record(const RunConfig& config);

// Back from the record, with the data: whatever the preset of that name says today. Throws Error where the record
// contradicts itself.
RunConfig shared_configuration(const Comparison& comparison);

}  // namespace cogwheel
