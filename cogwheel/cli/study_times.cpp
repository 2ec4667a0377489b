#include "cogwheel/cli/study_times.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/trained_reproduction.h"

namespace cogwheel::cli {

StudyTimes measure_studies(reproduce::TrainedExperiment experiment, compare::Comparison comparison,
                           const compare::RowTasks& tasks) {
  if (experiment.studies.empty()) return {};
  const auto seeds = static_cast<double>(comparison.settings.seeds.size());
  std::vector<double> runs;  // of each study, how many
  std::set<std::string> tried{comparison.baseline};
  for (reproduce::RequestedStudy& study : experiment.studies) {
    runs.push_back(seeds * static_cast<double>(study.rows.empty() ? comparison.mechanisms.size() : study.rows.size()));
    study.rows = {study.rows.empty() ? comparison.mechanisms.front().name : study.rows.front()};
    tried.insert(study.rows.front());
  }
  std::erase_if(comparison.mechanisms, [&](const compare::MechanismPlan& plan) {
    return !tried.contains(plan.name) && !comparison.is_base(plan.name);
  });
  comparison.settings.seeds.resize(1);
  comparison.settings.tune = 0;
  comparison.settings.steps = 1;
  for (compare::MechanismPlan& plan : comparison.mechanisms) {
    plan.steps = 1;
    plan.learning_rate = compare::untuned_rate(comparison, plan);
  }
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
  const reproduce::StudyStore anew(scratch.path(), COGWHEEL_VERSION, true);
  const auto all =
      reproduce::make_studies(experiment, job.comparison(), place.path(), scratch.path(), anew, [](const auto&) {});
  for (std::size_t study = 0; study < all.size(); ++study) {
    times.seconds += runs[study] * all[study].seconds;
    if (!all[study].problem.empty()) times.problem = all[study].problem;
  }
  return times;
}

}  // namespace cogwheel::cli
