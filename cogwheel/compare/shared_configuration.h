// The configuration that all runs of a comparison share, as recorded in results.json.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/compare/comparison.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel {

// Comparison::configuration: a configuration without the keys of the data and those that differ between runs.
std::string shared_record(const RunConfig& config);

// Whether runs share a key of this configuration, "model.width": so that it is recorded.
bool is_shared(const RunConfig& config, std::string_view key);

// The configuration from the record, with the data, even if the preset has changed since. Throws Error where the record
// contradicts itself.
RunConfig shared_configuration(const Comparison& comparison);

}  // namespace cogwheel
