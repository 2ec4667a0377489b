// The page of `cogwheel curves`: every number that runs reported, by steps, tokens and hours, beside each other.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/runs/curves/run_curve.h"

namespace cogwheel::runs {

// Which run is best so far, in a sentence.
std::string curves_verdict(const std::vector<RunCurve>& runs);

// `command` makes the page again; `created` is ISO 8601.
std::string curves_page(const std::vector<RunCurve>& runs, const std::string& command, const std::string& created,
                        const std::string& version);

}  // namespace cogwheel::runs
