#include "cogwheel/runs/training/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/nn/weights/device_name.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::runs {
namespace {

// The least of a few steps, which other load on the machine disturbs less than their mean.
double seconds_of_step(const ModelOptions& model, const TrainingOptions& training,
                       const std::shared_ptr<const Task>& task) {
  constexpr double limit = 0.25;
  TrainingRun run(model, unwatched(training), task);
  run.step();  // allocates and touches every page
  double least = std::numeric_limits<double>::infinity();
  const auto start = WallClock::now();
  do {
    const auto before = WallClock::now();
    run.step();
    least = std::min(least, seconds_since(before));
  } while (run.steps_done() < 6 && seconds_since(start) < limit);
  return least;
}

}  // namespace

TrainingOptions unwatched(TrainingOptions training) {
  training.spike_deviations = 0;
  training.parallel_context = training.parallel_tensor = 1;
  training.parallel_divide_moments = false;
  return training;
}

double measure_steps_per_second(const ModelOptions& model, const TrainingOptions& training,
                                std::shared_ptr<const Task> task, double seconds) {
  const std::int64_t first = task->phases().back().first_step;
  TrainingOptions options = unwatched(training);
  options.steps = std::max(options.steps, first + 1);
  TrainingRun run(model, options, std::move(task));
  run.skip_to(first);
  run.step();  // allocates and touches every page
  const auto start = WallClock::now();
  do {
    run.step();
  } while (run.steps_done() < first + 3 || seconds_since(start) < seconds);
  return static_cast<double>(run.steps_done() - first - 1) / seconds_since(start);
}

double cost_of_precision(const ModelOptions& model, const TrainingOptions& training,
                         const std::shared_ptr<const Task>& task) {
  TrainingOptions standard = training;
  standard.precision = TrainingOptions().precision;
  if (training.precision == standard.precision || !nn::device_named("training.device", training.device).is_cpu())
    return 1;
  return seconds_of_step(model, training, task) / seconds_of_step(model, standard, task);
}

std::string precision_note(const std::string& precision, double cost) {
  constexpr double noise = 1.1;
  if (cost < noise) return "";
  return fmt::format("training.precision: steps in {} take {:.1f} times as long as in {} here, measured on a few",
                     precision, cost, TrainingOptions().precision);
}

}  // namespace cogwheel::runs
