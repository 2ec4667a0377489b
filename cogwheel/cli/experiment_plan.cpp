#include "cogwheel/cli/experiment_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/cli/comparison_run.h"
#include "cogwheel/cli/dry_run.h"
#include "cogwheel/compare/comparison_job.h"
#include "cogwheel/compare/work_queue.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/reproduce/lab_times.h"
#include "cogwheel/research/reproduce/studies_of_rows.h"
#include "cogwheel/research/reproduce/study_store.h"

namespace cogwheel::cli {
namespace {

namespace fs = std::filesystem;

// Of the minutes that are given, so that something is learned that can be studied.
constexpr double largest_share_of_studies = 0.5;

using RowAndSeed = std::pair<std::string, std::int64_t>;

struct StoredParts {
  std::map<RowAndSeed, fs::path> runs, missing;  // their places
  std::int64_t trials = 0;
  std::vector<compare::TuningTrial> tuning = {};  // of rows whose trials are all there
};

StoredParts find_stored(compare::Comparison comparison, const compare::RowTasks& tasks,
                        const compare::RunStore& store) {
  StoredParts found{.runs = {}, .missing = {}, .trials = compare::take_stored_trials(comparison, tasks, store)};
  const std::int64_t items = comparison.data.evaluated_tokens;
  for (const compare::MechanismPlan& plan : comparison.mechanisms)
    for (const std::int64_t seed : comparison.settings.seeds) {
      const runs::RunConfig config = tasks.of(plan.name)->completed(compare::run_config(comparison, plan, seed));
      auto& runs = store.holds(config, items) ? found.runs : found.missing;
      runs[{plan.name, seed}] = store.place(config, items);
    }
  found.tuning = std::move(comparison.tuning);
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

void say_what_desk_scale_takes(PlannedExperiment planned, const compare::RunStore& store, const Workers& asked,
                               Estimate& all) {
  const auto& [experiment, fitted, comparison, tasks, budget, tried] = planned;
  std::map<std::string, double> rates;
  const double seconds = compare::decide_steps(planned.comparison, budget, [&](const auto& plan, const auto& config) {
    return rates[plan.name] = measure_rates(tasks, true)(plan, config);
  });
  pages::TextTable table{.title = "", .columns = {"row", "parameters", "steps", "runs"}, .rows = {}};
  for (const compare::MechanismPlan& plan : comparison.mechanisms)
    table.rows.push_back({plan.name, pages::grouped(plan.parameters), pages::grouped(plan.steps),
                          std::to_string(comparison.settings.seeds.size())});
  fmt::print("{}: {}\n\n{}\n", experiment.name, experiment.question, pages::table_text(table));

  StoredParts stored = find_stored(comparison, tasks, store);
  std::vector<compare::WorkItem> items = compare::items_to_do(comparison, rates);
  const double cost_of_all = compare::time_of_workers(items, 1);
  const auto of_others =
      std::ranges::count_if(stored.missing, [&](const auto& run) { return all.runs.contains(run.second); });
  compare::Comparison tuned = comparison;
  tuned.tuning = std::move(stored.tuning);
  std::erase_if(items, [&](const compare::WorkItem& item) {
    if (item.rate) return tuned.is_tried(item.mechanism, *item.rate);
    const auto missing = stored.missing.find({item.mechanism, item.seed});
    return missing == stored.missing.end() || all.runs.contains(missing->second);
  });
  for (const auto& [run, place] : stored.missing) all.runs.insert(place);
  const auto [workers, training] =
      share_work(asked, comparison, tasks, items, seconds * compare::time_of_workers(items, 1) / cost_of_all, true);
  reproduce::TrainedExperiment unstudied = experiment;
  if (stored.missing.empty())
    std::erase_if(unstudied.studies, [&](const auto& study) { return has_study(study, comparison, stored, store); });
  const bool all_tried = tried && unstudied.studies.size() == experiment.studies.size();
  const StudyTimes studies = all_tried ? *tried : measure_studies(unstudied, comparison, tasks);
  const double left = studies.seconds() + training;
  all.seconds += left;
  fmt::print("{}, {}; ", pages::counted(comparison.planned_runs(), "run"),
             store.retrains() ? "all trained anew" : fmt::format("{} of them in {}", stored.runs.size(), store.name()));
  if (of_others > 0) fmt::print("{} trained by experiments before; ", of_others);
  if (const std::int64_t trials = comparison.settings.tune * std::ssize(comparison.mechanisms); trials > 0)
    fmt::print("{} of learning rates, {} of them there; ", pages::counted(trials, "trial"), stored.trials);
  fmt::print("about {} here{}\n", duration_text(left),
             workers.count > 1 ? fmt::format(", by {} of {} each", pages::counted(workers.count, "worker"),
                                             pages::counted(workers.threads, "thread"))
                               : "");
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
    // Steps of the source's size may take minutes: what is known already is shown meanwhile.
    std::fflush(stdout);
    fmt::print(stderr, "{}: estimating a step of {}\n", experiment.name, plan.name);
    dry_run(task.task->completed(config), task.task, {.json = false, .knows_data = task.knows_data});
    fmt::print("\n");
  }
  fmt::print("{} of each row. The source: {}\n", pages::counted(std::ssize(comparison.settings.seeds), "run"),
             experiment.source.cost.empty() ? "nothing is known of its cost" : experiment.source.cost);
}

}  // namespace

labs::LabHost host_of_lab(const std::string& experiment) {
  static const ops::TorchExecutor executor;
  return {.executor = executor,
          .progress = [experiment](const std::string& line) { fmt::print(stderr, "{}: {}\n", experiment, line); }};
}

void say_what_it_takes(reproduce::LabExperiment experiment, const reproduce::ReproductionRequest& request,
                       Estimate& all) {
  fmt::print("{}: {}\n", experiment.name, experiment.lab->question);
  std::fflush(stdout);
  const reproduce::LabForecast forecast =
      reproduce::forecast_lab(experiment, request, host_of_lab(experiment.name), /*to_tell=*/true);
  all.seconds_of_labs += forecast.seconds;
  if (forecast.measured)
    fmt::print("about {} here{}{}\n", duration_text(forecast.seconds),
               forecast.smaller ? ", with " + forecast.fitted + " to fit" : "",
               forecast.exceeds ? ", more than the time given" : "");
  else if (forecast.seconds > 0)
    fmt::print("at most {}, as its file declares\n", duration_text(forecast.seconds));
  else
    fmt::print("its file does not say how long it takes\n");
}

PlannedExperiment plan_experiment(reproduce::TrainedExperiment experiment,
                                  const reproduce::ReproductionRequest& request) {
  reproduce::set_studies(experiment, request);
  const compare::CompareRequest asked = reproduce::comparison_request(experiment, request);
  compare::StepBudget budget = compare::requested_budget(asked);
  compare::Comparison comparison = compare::plan_comparison(asked);
  compare::RowTasks tasks = compare::load_tasks(comparison);
  reproduce::expect_numbers(experiment, comparison, tasks);
  std::optional<StudyTimes> studies;
  std::vector<std::string> fitted;
  if (budget.steps == 0) {
    const auto begin = WallClock::now();
    studies = measure_studies(experiment, comparison, tasks);
    budget.seconds -= seconds_since(begin);
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
                       const compare::RunStore& store, const Workers& workers, Estimate& all) {
  if (request.scale == "desk")
    return say_what_desk_scale_takes(plan_experiment(std::move(experiment), request), store, workers, all);
  reproduce::set_studies(experiment, request);
  const compare::CompareRequest asked = reproduce::comparison_request(experiment, request);
  compare::Comparison comparison = compare::plan_comparison(asked);
  comparison.settings.steps = compare::requested_budget(asked).steps;
  say_what_paper_scale_takes(experiment, request.scale, comparison);
}

}  // namespace cogwheel::cli
