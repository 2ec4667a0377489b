// The measures of a finished run, taken again from its checkpoint, and what else its task shows of a model.
#pragma once
#include <cstdint>
#include <optional>

#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/inspection.h"
#include "cogwheel/runs/measure.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

struct EvaluationOfRun {
  RunConfig config;
  TaskDescription task;
  DataFacts data;
  std::int64_t parameters = 0;
  bool trained_here = true;      // else its weights were imported, and its configuration says nothing of their training
  MeasuredValues measured = {};  // over everything that the task evaluates
  std::optional<NarrowingCost> narrowing = {};
  Inspection inspection = {};  // with all that is too slow for every run of a comparison
};

// Of `evaluated` held-out items (see Task::limited), if it is given, else of all. Throws Error where the checkpoint is
// damaged or of another configuration. `kept`: what else is measured, if any.
EvaluationOfRun evaluate_run(const Task& task, const RunConfig& config, const RunFolder& folder,
                             const ThoroughInspection& options = {}, std::optional<std::int64_t> evaluated = {},
                             const KeptNumbers& kept = {});

}  // namespace cogwheel::runs
