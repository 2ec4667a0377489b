// The common part of `train` and `resume`, given a run and its folder.
#pragma once
#include <filesystem>
#include <set>
#include <string>

#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::cli {

// Trains with progress on stderr and prints the result on stdout. Throws Interrupted after Ctrl-C, NonFiniteLoss if the
// loss is NaN or infinite; a checkpoint is left in both cases.
void train_and_report(runs::TrainingRun& run, const runs::RunFolder& folder, const runs::RunConfig& config);

// Loads the newest checkpoint of the run's folder and says on stderr what load_newest does; writes the files of the
// task where the run was killed before its first.
void load_or_begin(runs::TrainingRun& run, const runs::RunFolder& folder, const std::set<std::string>& changed);

// Of ranks but the first, once that one has its folder: trains with it, and says nothing.
void train_beside(runs::TrainingRun& run);

// Throws UsageError where the folder that is replaced has a run from which the configuration learns.
void expect_not_replaced(const runs::RunConfig& config, const std::filesystem::path& out);

// Reports on stderr what was left out of the data, and how they are taken where that may not be what was meant.
void say_how_data_are_taken(const runs::Task& task);

// Says where the precision of a completed configuration, which somebody chose, is slower here than the default one.
void say_what_precision_costs(runs::RunConfig config, const std::shared_ptr<const runs::Task>& task);

}  // namespace cogwheel::cli
