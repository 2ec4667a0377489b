// A training run in its folder, with metrics and checkpoints.
#pragma once
#include <vector>

#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::runs {

// Calls hooks.report after each line of metrics.jsonl, saves a checkpoint when one is due, and calls hooks.checkpoint
// after it. Lines after the run's step, left from before a resume, are dropped. Throws Error where lines before it are
// missing.
TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks = {});

}  // namespace cogwheel::runs
