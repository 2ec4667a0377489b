// Runs a planned comparison with its progress on the terminal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/cli/workers.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/work_queue.h"

namespace cogwheel::cli {

// Training steps per second, by trying. Where they only serve an estimate, `decides` is false and less is tried.
compare::MeasureRate measure_rates(const compare::RowTasks& tasks, bool decides);

// How a comparison's work is shared, and the seconds that it takes.
struct SharedWork {
  Workers workers;  // decided
  double seconds = 0;
};

// Of items that this process alone makes in so many seconds. Measures how fast workers are together, if others than it;
// `exact`: for longer.
SharedWork share_work(const Workers& asked, const compare::Comparison& comparison, const compare::RowTasks& tasks,
                      const std::vector<compare::WorkItem>& items, double seconds, bool exact);

// Decides the steps, those of one process, and how many workers make them where that is not said; records the machine
// and the versions, says what is to do, and makes the runs or has them made. With a store, runs are made in it and
// taken from it. Throws Interrupted after Ctrl-C; `resume` is the command that goes on, unless it is that of the
// comparison.
compare::ComparisonJob run_comparison(const compare::ComparisonFolder& folder, compare::Comparison comparison,
                                      const compare::RowTasks& tasks, const compare::StepBudget& budget,
                                      const Workers& asked, compare::RunStore* store = nullptr,
                                      const std::string& resume = {});

}  // namespace cogwheel::cli
