#include "cogwheel/cli/study_times.h"

#include <utility>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/trained_reproduction.h"

namespace cogwheel::cli {

StudyTimes measure_studies(const reproduce::TrainedExperiment& experiment, compare::Comparison comparison,
                           const compare::RowTasks& tasks) {
  if (experiment.studies.empty()) return {};
  const auto seeds = static_cast<double>(comparison.settings.seeds.size());
  comparison.settings.seeds.resize(1);
  comparison.settings.tune = 0;
  comparison.settings.steps = 1;
  for (compare::MechanismPlan& plan : comparison.mechanisms) plan.steps = 1;
  const ScratchFolder scratch;
  const auto place = compare::ComparisonFolder::create(scratch / reproduce::comparison_folder, false);
  place.write_records(*tasks.shared());
  compare::ComparisonJob job(std::move(comparison), tasks, place,
                             {.progress = [](const auto&...) {}, .line = [](const auto&) {}, .stop = &stop_flag()});
  try {
    job.run();
  } catch (const Interrupted&) {
    throw Interrupted("interrupted before the first run; nothing was trained");
  }
  StudyTimes times;
  const auto all =
      reproduce::make_studies(experiment, job.comparison(), place.path(), scratch.path(), [](const auto&) {});
  for (const reproduce::StudyOfRows& made : all) {
    times.seconds += seeds * made.seconds;
    if (!made.problem.empty()) times.problem = made.problem;
  }
  return times;
}

}  // namespace cogwheel::cli
