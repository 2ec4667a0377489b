// results.json, schema 1: see docs/results-format.md.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/evaluate/comparison.h"

namespace cogwheel {

inline constexpr int results_schema = 1;

// With a final newline. Numbers that are not finite become null.
std::string results_to_json(const Comparison& comparison);

// Keys it does not know are skipped, so that later additions to schema 1 can be read; the summary is made again from
// the runs. Throws Error naming `what` where the text is not JSON, of another schema, lacks a key, or says what cannot
// be.
Comparison parse_results(std::string_view json, std::string_view what = "results.json");

}  // namespace cogwheel
