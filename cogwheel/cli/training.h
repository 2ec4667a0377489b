// What `train` and `resume` share once there is a run and a folder.
#pragma once
#include "cogwheel/storage/run_folder.h"
#include "cogwheel/train/training_run.h"

namespace cogwheel {

// Trains with progress on stderr and says on stdout what came of it. Throws Interrupted after Ctrl-C, NonFiniteLoss
// where the loss was lost; both have left a checkpoint.
void train_and_report(TrainingRun& run, const RunFolder& folder, const RunConfig& config);

// Says on stderr what of the data was not taken.
void say_what_is_left_out(const Task& task);

}  // namespace cogwheel
