// What an experiment takes, before anything is trained or computed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/cli/study_times.h"
#include "cogwheel/cli/workers.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/compare/run_store.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/reproduce/reproduction.h"
#include "cogwheel/research/reproduce/trained_experiment.h"
#include "cogwheel/research/reproduce/trained_reproduction.h"

namespace cogwheel::cli {

struct PlannedExperiment {
  reproduce::TrainedExperiment experiment;  // its studies with the parameters that were asked for, or fit
  std::vector<std::string> fitted = {};     // those that fit, as --set takes them
  compare::Comparison comparison;
  compare::RowTasks tasks;
  compare::StepBudget budget;         // its seconds are without those of the studies, and of trying them
  std::optional<StudyTimes> studies;  // tried where the budget has seconds
};

// Throws Error where the data, or a number that a claim asks of it, is not there.
PlannedExperiment plan_experiment(reproduce::TrainedExperiment experiment,
                                  const reproduce::ReproductionRequest& request);

// How many runs of the comparison the store has.
std::int64_t stored_runs(const PlannedExperiment& planned, const compare::RunStore& store);

// What several experiments take, each run counted once.
struct Estimate {
  std::set<std::filesystem::path> runs;  // to train, by their places in the store
  double seconds = 0;                    // of experiments that train
  double seconds_of_labs = 0;
};

// A lab's, with all threads of this process, which says on stderr of which experiment its lines are.
labs::LabHost host_of_lab(const std::string& experiment);

// Prints how long a lab takes here, and adds it to what others take.
void say_what_it_takes(reproduce::LabExperiment experiment, const reproduce::ReproductionRequest& request,
                       Estimate& all);

// Prints what would be made, and how long it would take here by such workers; adds it to what other experiments take.
// Of another scale than desk, whose data and speed nobody has on the desk: each row as `cogwheel train --dry-run` says
// it. Nothing is written.
void say_what_it_takes(reproduce::TrainedExperiment experiment, const reproduce::ReproductionRequest& request,
                       const compare::RunStore& store, const Workers& workers, Estimate& all);

}  // namespace cogwheel::cli
