// results.json, schema 1: see docs/results-format.md.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/compare/record/comparison.h"

namespace cogwheel::compare {

inline constexpr int results_schema = 1;

// Numbers that are not finite become null.
nlohmann::ordered_json results_as_json(const Comparison& comparison);
// The same as text, with a final newline.
std::string results_to_json(const Comparison& comparison);

// Unknown keys are skipped, so that files with later additions to schema 1 can be read; the summary is computed again
// from the runs. Throws Error that names `what` where the text is not JSON, has another schema, lacks a key, or holds
// an invalid value.
Comparison parse_results(std::string_view json, std::string_view what = "results.json");

// One run as results.json has it, and back; measures are those of the task.
std::string run_to_json(const RunResult& run);
RunResult parse_run(std::string_view json, std::string_view what, const runs::TaskDescription& task);
// The same of a trial of a learning rate.
std::string trial_to_json(const TuningTrial& trial);
TuningTrial parse_trial(std::string_view json, std::string_view what);

}  // namespace cogwheel::compare
