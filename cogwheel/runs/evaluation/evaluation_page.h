// evaluation.html and evaluation.json: what a run has learned.
#pragma once
#include <string>

#include "cogwheel/runs/evaluation/evaluation_of_run.h"

namespace cogwheel::runs {

// `command` makes the page again. `created` is ISO 8601.
std::string evaluation_page(const EvaluationOfRun& evaluation, const std::string& command, const std::string& created,
                            const std::string& version);
std::string evaluation_to_json(const EvaluationOfRun& evaluation);

// "Held-out loss 1.2345 nats per character, accuracy 0.9876.", and a sentence on numbers of fewer bits.
std::string evaluation_verdict(const EvaluationOfRun& evaluation);

}  // namespace cogwheel::runs
