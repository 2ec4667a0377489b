// Real steps of a configuration, a slice or a few each, timed: what forecasts begin with.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/forecast/step_memory.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::cli {

struct MeasuredSlice {
  std::int64_t steps = 0, tokens = 0;  // timed; of one step
  double seconds = 0;                  // of the fastest of each phase, by the steps that phases have
  // Of the fastest too: its forward and backward passes, and the rest, which the optimiser needs.
  double passes_seconds = 0, rest_seconds = 0;
  std::optional<std::int64_t> peak = {};  // bytes of the whole process

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

// Ranks that make the same steps at the same time, each of a model of its own and without an exchange, as a machine's
// memory and caches are shared by all of its ranks. The others wait.
struct StepsAtOnce {
  const distributed::Ranks& ranks = distributed::one_rank;
  bool steps_here = true;  // true on the first rank
};

// How many processes at once can make steps of so many slices, 1 or 2, here. `memory`: of a step of the configuration.
struct ProcessesAtOnce {
  std::int64_t count = 0;     // at most as many as were asked for
  std::string why_none = {};  // where there is not one
};
ProcessesAtOnce processes_at_once(const runs::RunConfig& config, const runs::StepMemory& memory, std::int64_t slices,
                                  std::int64_t most = 1);

// Collective. Steps of so many slices of the configuration's, the optimiser's work among them; of each the slowest
// rank's time.
MeasuredSlice measure_slices(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices, const StepsAtOnce& at_once = {});

}  // namespace cogwheel::cli
