// What a run has written down while it learned, a running one's too: only whole lines are read, and nothing is locked.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::runs {

// A number of reports by its key in metrics.jsonl: as many values as there are reports, NaN where a report lacks it.
struct CurveNumber {
  std::string name;
  std::vector<double> values;
};

// Something that happened after a step, in words.
struct RunEvent {
  enum class Kind { changed, spike };
  Kind kind;
  std::int64_t step = 0;
  std::string text;
};

struct RunSample {
  std::int64_t step = 0;
  std::string prompt, text;
};

struct RunCurve {
  std::string name;  // as readers tell it apart from the others
  std::filesystem::path folder;
  RunConfig config;
  std::int64_t parameters = 0;
  std::vector<double> steps = {}, tokens = {}, seconds = {};  // of the reports, in rising order of the steps
  std::vector<double> times = {};         // when they were made, in seconds since 1970, as near as files tell
  std::vector<CurveNumber> numbers = {};  // in the order in which reports name them
  std::vector<RunEvent> events = {};      // in the order of their steps
  std::vector<RunSample> samples = {};

  // Null where no report has it.
  const CurveNumber* find(std::string_view name) const;
};

// Of folders of runs and of comparisons, whose runs stand for them, each run once. Throws Error where a folder is
// neither.
std::vector<std::filesystem::path> folders_of_runs(const std::vector<std::filesystem::path>& places);

// The runs in folders. Throws Error where a line is damaged, or no run has a report yet; a run without one, beside
// others that have some, is among them.
std::vector<RunCurve> read_curves(const std::vector<std::filesystem::path>& folders);

}  // namespace cogwheel::runs
