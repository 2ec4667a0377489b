// harness.html and harness.json: what runs scored on tasks.
#pragma once
#include <string>

#include "cogwheel/compare/harness/task_scores.h"
#include "cogwheel/pages/exhibits.h"

namespace cogwheel::compare {

// `command` makes the page again. `created` is ISO 8601.
std::string scores_page(const HarnessScores& scores, const std::string& command, const std::string& created,
                        const std::string& version);

// With every question; docs/harness.md has the keys.
std::string scores_to_json(const HarnessScores& scores);
// The same of one run alone, as its folder keeps it.
std::string scores_to_json(const HarnessScores& scores, std::size_t run);

// Which scores are above always giving the commonest answer, and of several runs which differences are clear.
std::string scores_verdict(const HarnessScores& scores);

// The scores of a run beside the paper's, chance and the commonest answer, as pages and terminals show them.
pages::TextTable scores_table(const HarnessScores& scores, std::size_t run);

}  // namespace cogwheel::compare
