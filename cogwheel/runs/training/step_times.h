// How long a training step of a model takes on this machine: measured on a few steps of a run that is then discarded.
#pragma once
#include <memory>
#include <string>

#include "cogwheel/runs/task.h"

namespace cogwheel::runs {

// The same without a look for spikes, and for one rank: of a run whose steps are only timed.
TrainingOptions unwatched(TrainingOptions training);

// Training steps per second of this model on this machine, of the last phase of the task, from as many steps as fit
// into `seconds`, at least two, after one to warm up. The trained model is discarded.
double measure_steps_per_second(const ModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Task> task, double seconds = 2.0);

// How many times as long a step takes in the precision that is asked for as in the default one: of two steps of each,
// of up to six where they take little time; one model at a time. 1 for the default one, and elsewhere than on the CPU,
// where nothing is measured.
double cost_of_precision(const ModelOptions& model, const TrainingOptions& training,
                         const std::shared_ptr<const Task>& task);
// In one line, what the user should know of such a cost; empty: nothing.
std::string precision_note(const std::string& precision, double cost);

}  // namespace cogwheel::runs
