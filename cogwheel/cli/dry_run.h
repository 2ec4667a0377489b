// What `train --dry-run` says of a configuration: parameters, memory, work, speed, days. Nothing is written.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/runs/forecast/machine.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::cli {

struct DryRunOptions {
  bool json = false;
  bool knows_data = false;  // the task has the data of the run, not random numbers of their shape
  // Of layouts: over how many ranks, and what a file says of the machine; 0 and none: of this process alone, or of the
  // ranks that it is one of.
  std::int64_t ranks = 0;
  std::optional<runs::Machine> machine = {};
  std::string machine_file = {};
};

// Of a completed configuration. Prints on stdout. For layouts whose cost has to be measured it starts ranks, with the
// words of this command line, unless it is one of several, which then do it together.
void dry_run(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
             const DryRunOptions& options);

// A task for it: the run's where its data are there, else one on random numbers, for which `model.vocabulary` must be
// given.
struct DryRunTask {
  std::shared_ptr<const runs::Task> task;
  bool knows_data = false;
};
DryRunTask dry_run_task(const runs::RunConfig& config);

}  // namespace cogwheel::cli
