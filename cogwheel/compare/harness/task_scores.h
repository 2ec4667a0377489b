// What runs scored on tasks of lm-eval, and how they differ.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cogwheel::compare {

// A task with so many examples before each question.
struct HarnessTask {
  std::string name;
  std::int64_t shots = 0;
  std::string kind;                         // as lm-eval names it: "multiple_choice", "generate_until"
  std::optional<double> chance, commonest;  // shares that guessing, and always the commonest answer, would have right
};

struct MetricScore {
  std::string name;
  std::optional<double> value, error;  // a standard error; none where it isn't known
  bool higher_is_better = true;
};

// Of a run on a task.
struct TaskScore {
  std::vector<MetricScore> metrics;  // one at least, the one that decides first
  // Of each question the metric that decides, where it is a number of one question.
  std::vector<double> answers = {};
  std::int64_t questions = 0;
  std::string samples = {};  // JSON: what the model said of each question
  std::string problem = {};  // why no metric has a value, in one line; empty: none
};

struct ScoredRun {
  std::string folder, name;  // each of its own
  std::string mechanism;     // as configured
  std::string title;         // of the mechanism
  std::int64_t parameters = 0;
  std::vector<TaskScore> scores = {};  // by task
};

// Of a run and the first one, on the same questions.
struct ScoreDifference {
  std::size_t run = 1, task = 0;
  double difference = 0;           // of the metric that decides
  std::optional<double> interval;  // half of it, as wide as Holm's procedure decides at
  std::int64_t only_first = 0,
               only_this = 0;  // questions that one of them alone has right; 0 where answers are no yes or no
  std::optional<double> p_value, p_adjusted;  // none where there is no test
};

struct HarnessScores {
  std::string lm_eval;  // its version
  std::uint64_t seed = 0;
  std::optional<std::int64_t> limit;  // questions of a task, at most
  std::vector<HarnessTask> tasks;
  std::vector<ScoredRun> runs;
  std::vector<ScoreDifference> differences = {};  // of all runs but the first, by task
};

// Paired by question. Yes and no are compared by McNemar's exact test, other numbers by the t test; p-values are
// adjusted by Holm's procedure over all tasks and runs.
std::vector<ScoreDifference> score_differences(const std::vector<ScoredRun>& runs);

}  // namespace cogwheel::compare
