// Scores of tasks by lm-eval, the LM Evaluation Harness, which a process of Python runs: python/cogwheel/harness.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/compare/harness/task_scores.h"

namespace cogwheel::compare {

// Tasks that have names here: those of published_scores.h, and "continuation" (continuation_questions.h).
inline constexpr const char* continuation_task = "continuation";
std::vector<std::string> harness_task_names();

struct HarnessOptions {
  std::vector<std::filesystem::path> runs;  // one at least; the others are compared with the first
  std::vector<std::string> names;           // of harness_task_names, or
  std::filesystem::path folder;             // of lm-eval's YAML files
  std::filesystem::path data;               // <task>/<split>.jsonl or .parquet; empty: none
  std::optional<std::int64_t> shots;  // examples before a question; none: 0 and 1 of named tasks, of others theirs
  std::optional<std::int64_t> limit;  // questions of a task, at most
  std::int64_t batch = 8;             // texts of a pass
  std::uint64_t seed = 1234;          // lm-eval's own, of the examples
  std::vector<std::string> definitions = {}, mechanism_files = {};  // of mechanisms of one's own
};

// Questions of the continuation of a held-out text, unless a limit says fewer.
inline constexpr std::int64_t continuation_count = 500;

// What Python writes on standard error, a line for each run and task, goes where this process writes. Throws UsageError
// for names and runs that do not fit, Error in one line where lm-eval or data are missing or not what they should be.
HarnessScores lm_eval_scores(const HarnessOptions& options);

}  // namespace cogwheel::compare
