#include "cogwheel/cli/comparison_run.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <string>
#include <utility>

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

// Shows progress on stderr; the bar is removed at the end.
compare::ComparisonJob run_job(compare::Comparison comparison, const compare::RowTasks& tasks,
                               const compare::ComparisonFolder& folder, compare::RunStore* store,
                               const std::string& resume) {
  Progress progress(comparison.task.decisive().label, comparison.task.counted);
  compare::ComparisonJob job(
      std::move(comparison), tasks, folder,
      {.progress = [&](const std::string& label, const runs::StepReport& report) { progress.show(label, report); },
       .line = [&](const std::string& text) { progress.line(text); },
       .stop = &stop_flag(),
       .resume = resume},
      store);
  job.run();
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
                                      const compare::RowTasks& tasks, const compare::StepBudget& budget,
                                      compare::RunStore* store, const std::string& resume) {
  const bool decides = (budget.steps == 0 && comparison.settings.steps == 0) || comparison.match == "time";
  const double estimate = compare::decide_steps(comparison, budget, measure_rates(tasks, decides));
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

  return run_job(std::move(comparison), tasks, folder, store, resume);
}

}  // namespace cogwheel::cli
