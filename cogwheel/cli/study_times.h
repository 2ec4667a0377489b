// How long the studies of an experiment take.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/research/reproduce/trained_experiment.h"

namespace cogwheel::cli {

struct StudyTimes {
  struct Study {
    double fixed = 0, by_size = 0;  // seconds; the second grows with the parameter that says how much is studied
  };
  std::vector<Study> studies = {};  // in the order of the experiment's, for all rows and seeds
  std::string problem = {};         // why one could not be tried

  double seconds() const;
};

// By trying each with one model, of its first row and one step, and counting as much for all; of a study that names its
// size a sixteenth of it, or more where that takes no longer than the smallest. Leaves no file.
StudyTimes measure_studies(reproduce::TrainedExperiment experiment, compare::Comparison comparison,
                           const compare::RowTasks& tasks);

// Makes those smaller that can be, by one factor, so that all take at most `seconds`, and `times` with them, as far as
// their ranges allow. Returns what was set, as `--set` takes it: "pictures.samples=300".
std::vector<std::string> fit_studies(reproduce::TrainedExperiment& experiment, StudyTimes& times, double seconds);

}  // namespace cogwheel::cli
