#include "cogwheel/compare/harness/task_scores.h"

#include <algorithm>
#include <cmath>

#include "cogwheel/compare/statistics/mcnemar.h"
#include "cogwheel/compare/statistics/paired_statistics.h"

namespace cogwheel::compare {
namespace {

bool is_yes_or_no(const std::vector<double>& answers) {
  return std::all_of(answers.begin(), answers.end(), [](double answer) { return answer == 0 || answer == 1; });
}

}  // namespace

std::vector<ScoreDifference> score_differences(const std::vector<ScoredRun>& runs) {
  std::vector<ScoreDifference> found;
  std::vector<std::vector<double>> pairs;  // of each difference, question by question
  std::vector<double> p_values;
  std::vector<std::size_t> tested;
  for (std::size_t run = 1; run < runs.size(); ++run)
    for (std::size_t task = 0; task < runs[run].scores.size(); ++task) {
      const TaskScore &first = runs[0].scores[task], &score = runs[run].scores[task];
      if (!first.metrics.front().value || !score.metrics.front().value) continue;
      ScoreDifference difference{.run = run,
                                 .task = task,
                                 .difference = *score.metrics.front().value - *first.metrics.front().value,
                                 .interval = {},
                                 .p_value = {},
                                 .p_adjusted = {}};
      std::vector<double> differences;
      if (score.answers.size() == first.answers.size())
        for (std::size_t question = 0; question < score.answers.size(); ++question)
          differences.push_back(score.answers[question] - first.answers[question]);
      if (!differences.empty() && is_yes_or_no(first.answers) && is_yes_or_no(score.answers)) {
        difference.only_first = std::count(differences.begin(), differences.end(), -1.0);
        difference.only_this = std::count(differences.begin(), differences.end(), 1.0);
        difference.p_value = mcnemar_p_value(difference.only_first, difference.only_this);
      } else {
        difference.p_value = paired_p_value(differences);
      }
      if (difference.p_value) {
        tested.push_back(found.size());
        p_values.push_back(*difference.p_value);
      }
      found.push_back(difference);
      pairs.push_back(std::move(differences));
    }
  const std::vector<HolmStep> steps = holm(p_values);
  for (std::size_t test = 0; test < tested.size(); ++test) {
    ScoreDifference& difference = found[tested[test]];
    difference.p_adjusted = steps[test].p_adjusted;
    // Other metrics than means of their questions have no interval of these.
    const Estimate estimate = estimate_mean(pairs[tested[test]], steps[test].confidence);
    if (std::abs(estimate.mean - difference.difference) < 1e-9) difference.interval = estimate.interval;
  }
  return found;
}

}  // namespace cogwheel::compare
