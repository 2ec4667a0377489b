#include "cogwheel/research/reproduce/studies_of_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::reproduce {
namespace {

namespace fs = std::filesystem;

StudyOfRows make_study(const RequestedStudy& asked, const compare::Comparison& comparison,
                       const fs::path& comparison_path, const fs::path& folder, const StudyStore& store) {
  StudyOfRows made{.study = {.study = asked.entry, .parameters = asked.parameters}};
  const std::vector<inspect::RunToStudy> runs =
      runs_to_study(asked, comparison, [&](const std::string& row, std::int64_t seed) -> std::optional<fs::path> {
        const compare::RunResult* const run = comparison.run(row, seed);
        if (run == nullptr || run->status != compare::RunStatus::done) return std::nullopt;
        made.runs.push_back({row, seed});
        return compare::run_path(comparison_path, row, seed);
      });
  const auto begin = WallClock::now();
  try {
    if (runs.empty()) throw Error(expected_got(asked.entry->name, "a run that finished", "none"));
    made.study = store.study(*asked.entry, asked.parameters, runs, folder, [&] {
      inspect::FinishedStudy study = inspect::study_of_runs(*asked.entry, asked.parameters, runs, std::nullopt);
      study.command = "cogwheel inspect " + asked.entry->name + " RUN …, of the runs of the experiment";
      study.created = utc_now();
      study.version = comparison.versions.cogwheel;
      return study;
    });
  } catch (const Error& error) {
    made.problem = one_line(error.what());
  }
  made.seconds = seconds_since(begin);
  return made;
}

}  // namespace

std::vector<inspect::RunToStudy> runs_to_study(const RequestedStudy& asked, const compare::Comparison& comparison,
                                               const PathOfRun& path) {
  std::vector<inspect::RunToStudy> runs;
  for (const compare::MechanismPlan& plan : comparison.mechanisms) {
    if (!asked.rows.empty() && std::ranges::find(asked.rows, plan.name) == asked.rows.end()) continue;
    for (const std::int64_t seed : comparison.settings.seeds)
      if (std::optional<fs::path> found = path(plan.name, seed))
        runs.push_back(
            {.path = *std::move(found), .name = fmt::format("{}, seed {}", plan.name, seed), .kind = plan.name});
  }
  return runs;
}

std::vector<StudyOfRows> make_studies(const TrainedExperiment& experiment, const compare::Comparison& comparison,
                                      const fs::path& comparison_path, const fs::path& folder, const StudyStore& store,
                                      const std::function<void(const std::string&)>& line) {
  std::vector<StudyOfRows> all;
  for (const RequestedStudy& asked : experiment.studies) {
    line(fmt::format("{}: {}", asked.entry->name, asked.entry->question));
    all.push_back(make_study(asked, comparison, comparison_path, folder / studies_folder / asked.entry->name, store));
    line(all.back().problem.empty() ? all.back().study.result.answer : all.back().problem);
  }
  return all;
}

}  // namespace cogwheel::reproduce
