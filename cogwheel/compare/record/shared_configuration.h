// The configuration that all runs of a comparison share, as recorded in results.json.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::compare {

// A configuration without the keys of the data and those that differ between runs, as it is recorded. Throws UsageError
// where a text is not UTF-8.
nlohmann::ordered_json shared_record(const runs::RunConfig& config);

// Comparison::configuration: what such a record says, and the defaults of the rest.
runs::RunConfig shared_part(const runs::RunConfig& config);

// Whether runs share a key of this configuration, "model.width": so that it is recorded.
bool is_shared(const runs::RunConfig& config, std::string_view key);

// The configuration of the comparison, with its data, even if the preset has changed since.
runs::RunConfig shared_configuration(const Comparison& comparison);

// The positions of language models where they are not those of the form; else "".
std::string position_beside_form(const Comparison& comparison);

}  // namespace cogwheel::compare
