#include "cogwheel/cli/forecast/measured_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cogwheel/cli/forecast/network_speed.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/pages/html.h"
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

// Seconds of a step, of its passes, of the rest.
using StepSeconds = std::vector<double>;

StepSeconds timed_step(runs::TrainingRun& run, std::int64_t step) {
  const auto before = WallClock::now();
  const double passes_before = run.slices_seconds();
  run.skip_to(step);
  run.step();
  const double seconds = seconds_since(before), passes = run.slices_seconds() - passes_before;
  return {seconds, passes, seconds - passes};
}

}  // namespace

ProcessesAtOnce processes_at_once(const runs::RunConfig& config, const runs::StepMemory& memory, std::int64_t slices,
                                  std::int64_t most) {
  if (config.training.device != "cpu") return {.why_none = "the model learns on " + config.training.device};
  const std::optional<std::int64_t> available = available_memory_bytes();
  if (!available) return {.count = most};
  constexpr double spare = 1.25;
  const std::int64_t needed = memory.bytes_of(slices),
                     fit = static_cast<std::int64_t>(static_cast<double>(*available) / spare) / needed;
  if (fit > 0) return {.count = std::min(fit, most)};
  return {.why_none = fmt::format("a step of {} takes {} and {} are free", slices == 1 ? "one slice" : "two slices",
                                  pages::byte_size(needed), pages::byte_size(*available))};
}

MeasuredSlice measure_slices(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                             std::int64_t slices, const StepsAtOnce& at_once) {
  constexpr double enough = 1;  // second, once there are two steps
  runs::RunConfig slice = with_slices(config, slices);
  slice.training.learning_rate = slice.training.final_learning_rate = 1e-9;  // nothing diverges
  MeasuredSlice measured;
  const bool resets = reset_peak_memory();
  std::optional<runs::TrainingRun> run;
  if (at_once.steps_here) run.emplace(slice.model, runs::unwatched(slice.training), task);
  const auto step_of_all = [&](std::int64_t step) {
    return largest_of_ranks(at_once.ranks, run ? timed_step(*run, step) : StepSeconds(3, 0), "times of a step");
  };
  const std::vector<runs::Phase> phases = task->phases();
  std::int64_t end = config.training.steps;
  for (std::size_t left = phases.size(); left > 0; --left) {
    const std::int64_t first = phases[left - 1].first_step;
    if (first >= end) continue;
    // One that makes a report, where one is due, takes most memory; it touches every page, too.
    const std::int64_t every = std::max<std::int64_t>(1, config.training.report_every),
                       reported = (first / every + 1) * every - 1;
    step_of_all(reported < end ? reported : first);
    if (run && measured.tokens == 0) measured.tokens = run->tokens();
    StepSeconds fastest(3, std::numeric_limits<double>::infinity());
    std::int64_t steps = 0;
    // All ranks stop after the same step.
    for (double seconds = 0; steps < 2 || (steps < 10 && seconds < enough); ++steps) {
      const StepSeconds step = step_of_all(first);
      for (std::size_t index = 0; index < step.size(); ++index) fastest[index] = std::min(fastest[index], step[index]);
      seconds += step.front();
    }
    measured.steps += steps;
    const double share = static_cast<double>(end - first) / static_cast<double>(config.training.steps);
    measured.seconds += share * fastest[0];
    measured.passes_seconds += share * fastest[1];
    measured.rest_seconds += share * fastest[2];
    end = first;
  }
  if (resets) measured.peak = peak_memory_bytes();
  return measured;
}

}  // namespace cogwheel::cli
