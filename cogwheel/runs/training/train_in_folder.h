// A training run in its folder, with metrics, samples, checkpoints and returns from spikes.
#pragma once
#include <atomic>

#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::runs {

// Calls hooks.report after each line of metrics.jsonl, saves a checkpoint when one is due, and calls hooks.checkpoint
// after it. Lines after the run's step, left from before a resume, are dropped. A spike is recorded in spikes.jsonl;
// the run goes back to its newest checkpoint, leaves that batch out and goes on, training.spike_returns times at most,
// also over several calls: after them it returns TrainingStatus::spike. Throws Error where lines before the run's step
// are missing. Of several ranks, only the first has the folder.
TrainingStatus train_in_folder(TrainingRun& run, const RunFolder& folder, const TrainingHooks& hooks = {});

// Of every other rank meanwhile: collective, with the steps, returns and result of the first.
TrainingStatus train_beside_first(TrainingRun& run, const std::atomic<bool>* stop);

}  // namespace cogwheel::runs
