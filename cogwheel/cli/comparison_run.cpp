#include "cogwheel/cli/comparison_run.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/progress.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/compare/report/page.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/ops/bfloat16_products.h"

namespace cogwheel::cli {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

using StepsPerSecond = std::map<std::string, double>;  // of rows

compare::WorkTerms terms_of(const compare::RunStore* store) {
  compare::WorkTerms terms = compare::terms_here();
  if (store != nullptr) {
    terms.store = store->folder().string();
    terms.store_version = store->version();
    terms.retrain = store->retrains();
  }
  return terms;
}

// How much of the work has a result, and what is being made.
void show_work(Progress& progress, const compare::WorkQueue& queue) {
  double all = 0, made = 0;
  std::string at_work;
  std::int64_t results = 0;
  for (const compare::WorkItem& item : queue.items()) {
    all += item.cost;
    if (queue.has_result(item)) {
      made += item.cost;
      ++results;
    } else if (queue.is_claimed(item)) {
      at_work += (at_work.empty() ? "" : ", ") + item.label();
    }
  }
  progress.show("made", all > 0 ? made / all : 0,
                {.step = fmt::format("{} of {}", results, queue.items().size()),
                 .loss = at_work,
                 .measured = {},
                 .speed = {},
                 .left = {}});
}

// Shows progress on stderr; the bar is removed at the end.
compare::ComparisonJob run_job(compare::Comparison comparison, const compare::RowTasks& tasks,
                               const compare::ComparisonFolder& folder, const Workers& workers,
                               const StepsPerSecond& rates, compare::RunStore* store, const std::string& resume) {
  Progress progress(comparison.task.decisive().label, comparison.task.counted);
  std::vector<compare::WorkItem> items;
  if (workers.count > 1) items = compare::items_to_do(comparison, rates);
  const auto line = [&](const std::string& text) { progress.line(text); };
  compare::ComparisonJob job(
      std::move(comparison), tasks, folder,
      {.progress = [&](const std::string& label, const runs::StepReport& report) { progress.show(label, report); },
       .line = line,
       .stop = &stop_flag(),
       .resume = resume},
      store);
  if (workers.count == 1) {
    job.run();
    return job;
  }
  {
    WorkerProcesses processes(workers, folder.path());
    job.share(terms_of(store), std::move(items), [&](const compare::WorkQueue& queue) {
      processes.keep_at_work(queue, line);
      show_work(progress, queue);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
  }
  compare::remove_work(folder.path());
  return job;
}

}  // namespace

compare::MeasureRate measure_rates(const compare::RowTasks& tasks, bool decides) {
  return [=](const compare::MechanismPlan& plan, runs::RunConfig config) {
    // A rate so small that nothing can diverge: speed does not depend on it.
    config.training.learning_rate = config.training.final_learning_rate = 1e-9;
    if (stop_flag()) throw Interrupted("interrupted before the first run; nothing was trained");
    return runs::measure_steps_per_second(config.model, config.training, tasks.of(plan.name), decides ? 2.0 : 0.3);
  };
}

compare::ComparisonJob run_comparison(const compare::ComparisonFolder& folder, compare::Comparison comparison,
                                      const compare::RowTasks& tasks, compare::StepBudget budget,
                                      const Workers& workers, compare::RunStore* store, const std::string& resume) {
  const ThreadsOfAWorker threads(workers);
  budget.workers = workers.count;
  const bool decides = (budget.steps == 0 && comparison.settings.steps == 0) || comparison.match == "time";
  StepsPerSecond rates;
  const double estimate =
      compare::decide_steps(comparison, budget, [&](const compare::MechanismPlan& plan, const runs::RunConfig& config) {
        return rates[plan.name] = measure_rates(tasks, decides)(plan, config);
      });
  if (comparison.runs.empty())  // nothing to choose any more once there are results
    say_what_precision_costs(
        compare::run_config(comparison, comparison.mechanisms.front(), comparison.settings.seeds.front()),
        tasks.of(comparison.mechanisms.front().name));
  comparison.machine = compare::this_machine();
  comparison.machine.device = comparison.configuration.training.device;
  if (comparison.configuration.training.precision == "bf16")
    comparison.machine.bfloat16_products = ops::bfloat16_products_text();
  comparison.versions = {.cogwheel = COGWHEEL_VERSION,
                         .torch = TORCH_VERSION,
                         .compiler = compiler(),
                         .chart_js = compare::chart_js_version()};
  comparison.created = utc_now();
  std::string lengths;
  for (const compare::MechanismPlan& plan : comparison.mechanisms)
    lengths += fmt::format("{}{} {}", lengths.empty() ? "" : ", ", plan.name, plan.steps);
  fmt::print(stderr, "{} on {}: {} of {} runs to do, steps: {}{}\n", comparison.settings.preset, comparison.data.name,
             comparison.runs_to_do(), comparison.planned_runs(), lengths,
             estimate > 0 ? fmt::format("; about {} in all", duration_text(estimate)) : "");

  return run_job(std::move(comparison), tasks, folder, workers, rates, store, resume);
}

}  // namespace cogwheel::cli
