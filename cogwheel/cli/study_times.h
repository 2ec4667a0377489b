// How long the studies of an experiment take.
#pragma once
#include <string>

#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/research/reproduce/trained_experiment.h"

namespace cogwheel::cli {

struct StudyTimes {
  double seconds = 0;        // of all that could be tried, for all rows and seeds
  std::string problem = {};  // why one could not
};

// By trying each with one model, of its first row and one step, and counting as much for all. Leaves no file.
StudyTimes measure_studies(reproduce::TrainedExperiment experiment, compare::Comparison comparison,
                           const compare::RowTasks& tasks);

}  // namespace cogwheel::cli
