// Runs of one kind beside each other: seeds of the same model.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cogwheel/compare/statistics/paired_statistics.h"
#include "cogwheel/pages/line_chart.h"

namespace cogwheel::inspect {

struct StudiedRun;

struct RunGroup {
  std::string name;   // in files: "cog", "cog in softmax 1 + 1"; that of the run where two would be called the same
  std::string title;  // in charts: "Cog", "Cog in softmax 1 + 1"
  std::string said;   // in a sentence: "Cog", "softmax"
  std::vector<std::size_t> runs;  // indices, in order
};

// Runs of one kind, and of those that have none, runs whose configurations differ in the seed alone; in the order in
// which they come.
std::vector<RunGroup> groups_of(const std::vector<StudiedRun>& runs);

// The mean over the runs of a group, with an interval of 95 % from two runs on. `values` has one of each run.
compare::Estimate mean_of_group(const RunGroup& group, const std::vector<double>& values);
// "0.51 ± 0.04", "0.51", or nothing where it is no number.
std::string estimate_text(const compare::Estimate& estimate);
// The series of a group: `values` has of each run one of each x. Intervals as bars, where `bars`.
pages::ChartSeries group_series(const RunGroup& group, const std::vector<double>& x,
                                const std::vector<std::vector<double>>& values, bool bars = true);

}  // namespace cogwheel::inspect
