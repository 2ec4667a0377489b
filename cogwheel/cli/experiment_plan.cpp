#include "cogwheel/cli/experiment_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "cogwheel/cli/comparison_run.h"
#include "cogwheel/cli/dry_run.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/study_store.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

// Of the minutes that are given, so that something is learned that can be studied.
constexpr double largest_share_of_studies = 0.5;

struct StoredParts {
  std::map<std::pair<std::string, std::int64_t>, fs::path> runs;  // by row and seed, their places
  std::int64_t trials = 0;
  std::set<fs::path> missing;  // the places of the other runs
};

StoredParts find_stored(compare::Comparison comparison, const compare::RowTasks& tasks,
                        const compare::RunStore& store) {
  StoredParts found{.runs = {}, .trials = compare::take_stored_trials(comparison, tasks, store), .missing = {}};
  const std::int64_t items = comparison.data.evaluated_tokens;
  for (const compare::MechanismPlan& plan : comparison.mechanisms)
    for (const std::int64_t seed : comparison.settings.seeds) {
      const runs::RunConfig config = tasks.of(plan.name)->completed(compare::run_config(comparison, plan, seed));
      if (store.holds(config, items))
        found.runs[{plan.name, seed}] = store.place(config, items);
      else
        found.missing.insert(store.place(config, items));
    }
  return found;
}

// Whether the store has the study of the runs, all of which are stored.
bool has_study(const reproduce::RequestedStudy& study, const compare::Comparison& comparison, const StoredParts& stored,
               const compare::RunStore& store) {
  const auto runs = reproduce::runs_to_study(study, comparison, [&](const std::string& row, std::int64_t seed) {
    return compare::StoredRun::run_path(stored.runs.at({row, seed}));
  });
  return reproduce::StudyStore(store.folder(), store.version(), store.retrains())
      .holds(*study.entry, study.parameters, runs);
}

void say_what_desk_scale_takes(PlannedExperiment planned, const compare::RunStore& store, TrainingEstimate& all) {
  const auto& [experiment, fitted, comparison, tasks, budget, tried] = planned;
  const double seconds = compare::decide_steps(planned.comparison, budget, measure_rates(tasks, true));
  pages::TextTable table{.title = "", .columns = {"row", "parameters", "steps", "runs"}, .rows = {}};
  for (const compare::MechanismPlan& plan : comparison.mechanisms)
    table.rows.push_back({plan.name, pages::grouped(plan.parameters), pages::grouped(plan.steps),
                          std::to_string(comparison.settings.seeds.size())});
  fmt::print("{}: {}\n\n{}\n", experiment.name, experiment.question, pages::table_text(table));

  const StoredParts stored = find_stored(comparison, tasks, store);
  const auto of_others =
      std::ranges::count_if(stored.missing, [&](const fs::path& run) { return all.runs.contains(run); });
  all.runs.insert(stored.missing.begin(), stored.missing.end());
  const auto of_runs = [](std::int64_t runs, std::int64_t trials) {  // a trial has half the steps of a run
    return static_cast<double>(runs) + static_cast<double>(trials) / 2;
  };
  const std::int64_t runs = comparison.planned_runs(),
                     trials = comparison.settings.tune * std::ssize(comparison.mechanisms);
  reproduce::TrainedExperiment unstudied = experiment;
  if (stored.missing.empty())
    std::erase_if(unstudied.studies, [&](const auto& study) { return has_study(study, comparison, stored, store); });
  const bool all_tried = tried && unstudied.studies.size() == experiment.studies.size();
  const StudyTimes studies = all_tried ? *tried : measure_studies(unstudied, comparison, tasks);
  const double left = studies.seconds() + seconds *
                                              of_runs(std::ssize(stored.missing) - of_others, trials - stored.trials) /
                                              of_runs(runs, trials);
  all.seconds += left;
  fmt::print("{}, {}; ", pages::counted(runs, "run"),
             store.retrains() ? "all trained anew" : fmt::format("{} of them in {}", stored.runs.size(), store.name()));
  if (of_others > 0) fmt::print("{} trained by experiments before; ", of_others);
  if (trials > 0)
    fmt::print("{} of learning rates, {} of them there; ", pages::counted(trials, "trial"), stored.trials);
  fmt::print("about {} here\n", duration_text(left));
  if (!unstudied.studies.empty())
    fmt::print("of it {} for its {}{}{}\n", duration_text(studies.seconds()),
               unstudied.studies.size() == 1 ? "study" : "studies",
               fitted.empty() ? "" : fmt::format(", with {} to fit", fmt::join(fitted, ", ")),
               studies.problem.empty() ? "" : "; one could not be tried: " + studies.problem);
  if (!experiment.source.cost.empty()) fmt::print("the source: {}\n", experiment.source.cost);
}

void say_what_paper_scale_takes(const reproduce::TrainedExperiment& experiment, const std::string& scale_name,
                                const compare::Comparison& comparison) {
  const reproduce::Scale& scale = experiment.scale(scale_name);
  for (const compare::MechanismPlan& plan : comparison.mechanisms) {
    compare::MechanismPlan whole = plan;
    whole.steps = comparison.settings.steps;
    runs::RunConfig config = compare::run_config(comparison, whole, 1);
    config.name = plan.name;
    if (std::int64_t* const vocabulary = runs::common(config.model).vocabulary) *vocabulary = scale.vocabulary;
    const DryRunTask task = dry_run_task(config);
    dry_run(task.task->completed(config), task.task, {.json = false, .knows_data = task.knows_data});
    fmt::print("\n");
  }
  fmt::print("{} of each row. The source: {}\n", pages::counted(std::ssize(comparison.settings.seeds), "run"),
             experiment.source.cost.empty() ? "nothing is known of its cost" : experiment.source.cost);
}

}  // namespace

PlannedExperiment plan_experiment(reproduce::TrainedExperiment experiment,
                                  const reproduce::ReproductionRequest& request) {
  reproduce::set_studies(experiment, request.set);
  const compare::CompareRequest asked = reproduce::comparison_request(experiment, request);
  compare::StepBudget budget = compare::requested_budget(asked);
  compare::Comparison comparison = compare::plan_comparison(asked);
  compare::RowTasks tasks = compare::load_tasks(comparison);
  reproduce::expect_numbers(experiment, comparison, tasks);
  std::optional<StudyTimes> studies;
  std::vector<std::string> fitted;
  if (budget.steps == 0) {
    const auto begin = std::chrono::steady_clock::now();
    studies = measure_studies(experiment, comparison, tasks);
    budget.seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fitted = fit_studies(experiment, *studies, budget.seconds * largest_share_of_studies);
    budget.seconds = std::max(1.0, budget.seconds - studies->seconds());
  }
  return {.experiment = std::move(experiment),
          .fitted = std::move(fitted),
          .comparison = std::move(comparison),
          .tasks = std::move(tasks),
          .budget = budget,
          .studies = std::move(studies)};
}

std::int64_t stored_runs(const PlannedExperiment& planned, const compare::RunStore& store) {
  return std::ssize(find_stored(planned.comparison, planned.tasks, store).runs);
}

void say_what_it_takes(reproduce::TrainedExperiment experiment, const reproduce::ReproductionRequest& request,
                       const compare::RunStore& store, TrainingEstimate& all) {
  if (request.scale == "desk")
    return say_what_desk_scale_takes(plan_experiment(std::move(experiment), request), store, all);
  reproduce::set_studies(experiment, request.set);
  const compare::CompareRequest asked = reproduce::comparison_request(experiment, request);
  compare::Comparison comparison = compare::plan_comparison(asked);
  comparison.settings.steps = compare::requested_budget(asked).steps;
  say_what_paper_scale_takes(experiment, request.scale, comparison);
}

}  // namespace cogwheel::cli
