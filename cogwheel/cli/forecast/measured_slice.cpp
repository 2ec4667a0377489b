#include "cogwheel/cli/forecast/measured_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/forecast/step_memory.h"
#include "cogwheel/runs/training/step_times.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::cli {
namespace {

runs::RunConfig with_slices(runs::RunConfig config, std::int64_t slices) {
  config.training = runs::one_slice(config.training);
  config.training.batch *= slices;
  config.training.micro_batches = slices;
  return config;
}

}  // namespace

std::string why_not_measured(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices) {
  if (config.training.device != "cpu") return "the model learns on " + config.training.device;
  constexpr double spare = 1.25;
  const std::int64_t needed = runs::step_memory(with_slices(config, slices), *task).bytes();
  const std::optional<std::int64_t> available = available_memory_bytes();
  if (!available || spare * static_cast<double>(needed) <= static_cast<double>(*available)) return "";
  return fmt::format("a step of {} takes {} and {} are free", slices == 1 ? "one slice" : "two slices",
                     pages::byte_size(needed), pages::byte_size(*available));
}

MeasuredSlice measure_slices(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices, std::int64_t program) {
  constexpr double enough = 1;  // second, once there are two steps
  runs::RunConfig slice = with_slices(config, slices);
  slice.training.learning_rate = slice.training.final_learning_rate = 1e-9;  // nothing diverges
  MeasuredSlice measured;
  if (const runs::StepMemory memory = runs::step_memory(slice, *task); memory.is_known())
    measured.said = memory.bytes() + program;
  const bool resets = reset_peak_memory();
  runs::TrainingRun run(slice.model, runs::unwatched(slice.training), task);
  const std::vector<runs::Phase> phases = task->phases();
  std::int64_t end = config.training.steps;
  for (std::size_t left = phases.size(); left > 0; --left) {
    const std::int64_t first = phases[left - 1].first_step;
    if (first >= end) continue;
    run.skip_to(first);
    run.step();  // allocates and touches every page
    if (measured.tokens == 0) measured.tokens = run.tokens();
    double fastest = std::numeric_limits<double>::infinity(), passes = fastest, rest = fastest;
    const auto start = WallClock::now();
    std::int64_t steps = 0;
    do {
      const auto before = WallClock::now();
      const double passes_before = run.slices_seconds();
      run.skip_to(first);
      run.step();
      const double seconds = seconds_since(before), of_passes = run.slices_seconds() - passes_before;
      fastest = std::min(fastest, seconds);
      passes = std::min(passes, of_passes);
      rest = std::min(rest, seconds - of_passes);
      ++steps;
    } while (steps < 2 || (steps < 10 && seconds_since(start) < enough));
    measured.steps += steps;
    const double share = static_cast<double>(end - first) / static_cast<double>(config.training.steps);
    measured.seconds += share * fastest;
    measured.passes_seconds += share * passes;
    measured.rest_seconds += share * rest;
    end = first;
  }
  if (resets) measured.peak = peak_memory_bytes();
  return measured;
}

}  // namespace cogwheel::cli
