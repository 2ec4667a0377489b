// A training run in its folder: metrics and checkpoints as it goes.
#pragma once
#include <vector>

#include "cogwheel/storage/run_folder.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {

// hooks.report after a line of metrics.jsonl, a checkpoint wherever one is due, hooks.checkpoint after it. Lines after
// the run's step, left from before it was resumed, are dropped; Error where lines before it are missing.
TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks = {});

}  // namespace cogwheel
