// Real steps of a configuration, a slice or a few each, timed: what forecasts begin with.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::cli {

struct MeasuredSlice {
  std::int64_t steps = 0, tokens = 0;  // timed; of one step
  double seconds = 0;                  // of the fastest of each phase, by the steps that phases have
  // Of the fastest too: its forward and backward passes, and the rest, which the optimiser needs.
  double passes_seconds = 0, rest_seconds = 0;
  // Bytes of the whole process, as they were expected of such a step, where that is known; and at most.
  std::optional<std::int64_t> said = {}, peak = {};

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

// Why steps of so many slices, 1 or 2, cannot be made here; empty: they can.
std::string why_not_measured(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices);

// Steps of so many slices of the configuration's, the optimiser's work among them. `program`: bytes of the process
// before there was a model.
MeasuredSlice measure_slices(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices, std::int64_t program);

}  // namespace cogwheel::cli
