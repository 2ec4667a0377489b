// evaluate --harness: scores of tasks by lm-eval.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/cli/definitions.h"

namespace CLI {
class App;
}

namespace cogwheel::cli {

struct HarnessArguments {
  std::optional<std::string> tasks;
  std::string data;
  std::optional<std::int64_t> shots, limit, batch;
  bool json = false;

  bool given() const { return tasks.has_value(); }
  // Throws UsageError where an option of it was given without it.
  void expect_none() const;
};

// Adds its options; `arguments` lives as long as the command.
void add_harness_options(CLI::App& command, HarnessArguments& arguments);

// What it shares with evaluate by itself.
struct HarnessPlace {
  std::vector<std::string> runs;
  std::string out;  // empty: the folder of the run, of several the working folder
  std::optional<std::uint64_t> seed;
  Definitions definitions;
};

// Writes harness.json into the folder of each run, or that of all into `out`, and the page; prints a table, or the
// JSON. Throws Error at the end, where a task's own functions could not make a score.
void evaluate_by_harness(const HarnessArguments& arguments, const HarnessPlace& place);

}  // namespace cogwheel::cli
