#include "cogwheel/cli/study_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/trained_reproduction.h"

namespace cogwheel::cli {
namespace {

bool is_sized(const reproduce::RequestedStudy& study) { return !study.entry->size.empty(); }

double size_of(const reproduce::RequestedStudy& study) { return study.parameters.number(study.entry->size); }

double smallest_size(const reproduce::RequestedStudy& study) {
  return std::ranges::find(study.parameters.all(), study.entry->size, &LabParameter::name)->range.min;
}

// Of which all of it follows: a sixteenth, but so many that what does not grow with them counts little.
double tried_size(const reproduce::RequestedStudy& study) {
  constexpr double enough = 64;
  return std::floor(std::min(size_of(study), std::max(size_of(study) / 16, enough)));
}

// Returns what was set, within the range of sizes.
std::string set_size(reproduce::RequestedStudy& study, double size) {
  const std::string assignment =
      fmt::format("{}={:.0f}", study.entry->size, std::max(std::floor(size), smallest_size(study)));
  study.parameters.assign(assignment, study.entry->name);
  return study.entry->name + "." + assignment;
}

}  // namespace

double StudyTimes::seconds() const {
  return std::accumulate(studies.begin(), studies.end(), 0.0,
                         [](double sum, const Study& each) { return sum + each.fixed + each.by_size; });
}

std::vector<std::string> fit_studies(reproduce::TrainedExperiment& experiment, StudyTimes& times, double seconds) {
  double sized = 0;
  for (const StudyTimes::Study& each : times.studies) sized += each.by_size;
  std::vector<std::string> set;
  if (sized == 0 || times.seconds() <= seconds) return set;
  const double share = std::max(0.0, 1 - (times.seconds() - seconds) / sized);
  for (std::size_t index = 0; index < times.studies.size(); ++index) {
    StudyTimes::Study& time = times.studies[index];
    if (time.by_size == 0) continue;
    reproduce::RequestedStudy& study = experiment.studies[index];
    const double before = size_of(study), smallest = smallest_size(study);
    set.push_back(set_size(study, smallest + share * (before - smallest)));
    time.by_size *= (size_of(study) - smallest) / (before - smallest);
  }
  return set;
}

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
  const auto seconds_of = [&](reproduce::RequestedStudy study) {
    reproduce::TrainedExperiment one = experiment;
    one.studies = {std::move(study)};
    const reproduce::StudyStore anew(scratch.path(), COGWHEEL_VERSION, true);
    const reproduce::StudyOfRows made =
        reproduce::make_studies(one, job.comparison(), place.path(), scratch.path(), anew, [](const auto&) {}).front();
    if (!made.problem.empty()) times.problem = made.problem;
    return made.seconds;
  };
  for (std::size_t index = 0; index < experiment.studies.size(); ++index) {
    const reproduce::RequestedStudy& study = experiment.studies[index];
    StudyTimes::Study& time = times.studies.emplace_back();
    if (!is_sized(study)) {
      time.fixed = runs[index] * seconds_of(study);
      continue;
    }
    // The first try has what all runs share, as a classifier, which the first of them makes.
    reproduce::RequestedStudy part = study;
    set_size(part, smallest_size(part));
    const double smallest = size_of(part), first = seconds_of(part), again = seconds_of(part);
    // Larger and larger ones, until one takes so much longer that it is no accident of a busy machine.
    constexpr double clearly = 2, growth = 4;
    double each = 0;
    for (double size = tried_size(study); size > smallest; size = std::min(growth * size, size_of(study))) {
      set_size(part, size);
      const double seconds = seconds_of(part);
      each = std::max(0.0, seconds - again) / (size_of(part) - smallest);
      if (seconds >= clearly * again || size >= size_of(study)) break;
    }
    time.fixed = first + (runs[index] - 1) * again;
    time.by_size = runs[index] * each * (size_of(study) - smallest);
  }
  return times;
}

}  // namespace cogwheel::cli
