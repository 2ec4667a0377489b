#include "cogwheel/cli/comparison_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
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
#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/process/shell_word.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/core/wording/utc_time.h"
#include "cogwheel/nn/weights/device_name.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/training/metrics.h"
#include "cogwheel/runs/training/step_times.h"

namespace cogwheel::cli {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

compare::WorkTerms terms_of(const compare::Comparison& comparison, const compare::RunStore* store) {
  compare::WorkTerms terms = compare::terms_here(comparison.configuration.training.multiplies_bfloat16());
  if (store != nullptr) {
    terms.store = store->folder().string();
    terms.store_version = store->version();
    terms.retrain = store->retrains();
  }
  return terms;
}

// Steps per second of several models of one row that learn at the same time, each in a thread that has others.
double measure_together(const compare::RowTasks& tasks, const compare::MechanismPlan& plan,
                        const runs::RunConfig& config, std::int64_t workers, std::int64_t threads, bool decides) {
  std::vector<double> rates(static_cast<std::size_t>(workers));
  std::vector<std::exception_ptr> problems(rates.size());
  {
    std::vector<std::jthread> together;
    for (std::size_t worker = 0; worker < rates.size(); ++worker)
      together.emplace_back([&, worker] {
        try {
          const ThreadCount own(threads);
          rates[worker] = measure_rates(tasks, decides)(plan, config);
        } catch (...) {
          problems[worker] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

// How many processes there is memory for that hold what this one does: data, a model, libraries.
std::int64_t room_for_workers() {
  const auto available = available_memory_bytes(), resident = resident_memory_bytes();
  return available && resident && *resident > 0 ? *available / *resident : 1;
}

// How many workers with how many threads, and how many times as fast as this process alone they are together. Threads
// that a comparison began with stay, because sums depend on them.
std::pair<Workers, double> decide_workers(Workers workers, const compare::Comparison& comparison,
                                          const compare::RowTasks& tasks, std::int64_t items, double estimate,
                                          bool exact) {
  constexpr double worth_trying = 60;  // seconds
  const compare::MechanismPlan& plan = comparison.mechanisms.front();
  const runs::RunConfig config = compare::run_config(comparison, plan, comparison.settings.seeds.front());
  const std::int64_t all = at::get_num_threads(), before = comparison.machine.threads;
  const bool chosen = workers.count == 0;
  std::map<std::pair<std::int64_t, std::int64_t>, double> measured;  // once each: it takes seconds
  const auto measure = [&](std::int64_t count, std::int64_t threads) {
    const auto [rate, fresh] = measured.try_emplace({count, threads});
    if (fresh) rate->second = measure_together(tasks, plan, config, count, threads, chosen || exact);
    return rate->second;
  };
  if (chosen) {
    workers.count = 1;
    const std::int64_t most = std::min(items, room_for_workers());
    if (before > 0 && workers.threads == 0)
      workers.count = std::min(all / before, most);
    else if (comparison.configuration.training.device == "cpu" && workers.threads == 0 && estimate > worth_trying)
      workers.count = choose_workers(most, measure).count;
  }
  workers.count = std::max<std::int64_t>(1, std::min(workers.count, items));
  if (workers.threads == 0 && before > 0) workers.threads = before;
  workers.threads = workers.used_threads();
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  if (const std::int64_t threads = workers.threads * workers.count; cores > 0 && threads > cores)
    fmt::print(stderr, "{} on {}: fewer would be faster\n", pages::counted(threads, "thread"),
               pages::counted(cores, "core"));
  if (estimate == 0 || (workers.count == 1 && workers.threads == all)) return {workers, 1};
  return {workers, measure(workers.count, workers.threads) / measure(1, all)};
}

// How much of the work has a result, and what is being made.
void show_work(Progress& progress, const compare::ComparisonFolder& folder, const compare::Comparison& comparison,
               const compare::WorkQueue& queue) {
  double all = 0, made = 0;
  std::string under_way;
  std::int64_t results = 0;
  for (const compare::WorkItem& item : queue.items()) {
    all += item.cost;
    if (queue.has_result(item)) {
      made += item.cost;
      ++results;
    } else if (queue.is_claimed(item)) {
      double share = 0;
      if (const compare::MechanismPlan* const plan = comparison.plan(item.mechanism); plan != nullptr && !item.rate)
        share = static_cast<double>(
                    runs::last_reported_step(runs::metrics_path(folder.run_path(*plan, item.seed))).value_or(0)) /
                static_cast<double>(plan->steps);
      made += share * item.cost;
      under_way += fmt::format("{}{} {:.0f} %", under_way.empty() ? "" : ", ", item.label(), 100 * share);
    }
  }
  progress.show("done", all > 0 ? made / all : 0,
                {.step = fmt::format("{} of {}", results, queue.items().size()),
                 .loss = under_way,
                 .measured = {},
                 .speed = {},
                 .left = {}});
}

// Shows progress on stderr; the bar is removed at the end.
compare::ComparisonJob run_job(compare::Comparison comparison, const compare::RowTasks& tasks,
                               const compare::ComparisonFolder& folder, const Workers& workers,
                               std::vector<compare::WorkItem> items, compare::RunStore* store,
                               const std::string& resume) {
  Progress progress(comparison.task.decisive().label, comparison.task.counted);
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
    int looks = 0;
    job.share(terms_of(job.comparison(), store), std::move(items), [&](const compare::WorkQueue& queue) {
      processes.start_missing(queue, line);
      if (looks++ % 5 == 0) show_work(progress, folder, job.comparison(), queue);
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

SharedWork share_work(const Workers& asked, const compare::Comparison& comparison, const compare::RowTasks& tasks,
                      const std::vector<compare::WorkItem>& items, double seconds, bool exact) {
  const auto [workers, faster] = decide_workers(asked, comparison, tasks, std::ssize(items), seconds, exact);
  return {workers, compare::seconds_of_workers(items, workers.count, seconds, faster)};
}

compare::ComparisonJob run_comparison(const compare::ComparisonFolder& folder, compare::Comparison comparison,
                                      const compare::RowTasks& tasks, const compare::StepBudget& budget,
                                      const Workers& asked, compare::RunStore* store, const std::string& resume) {
  const bool decides = (budget.steps == 0 && comparison.settings.steps == 0) || comparison.match == "time";
  std::map<std::string, double> rates;  // of rows
  const double alone =
      compare::decide_steps(comparison, budget, [&](const compare::MechanismPlan& plan, const runs::RunConfig& config) {
        return rates[plan.name] = measure_rates(tasks, decides)(plan, config);
      });
  std::vector<compare::WorkItem> items = compare::items_to_do(comparison, rates);
  const auto [workers, estimate] = share_work(asked, comparison, tasks, items, alone, false);
  const ThreadCount threads(workers.threads);
  if (comparison.runs.empty())  // nothing to choose any more once there are results
    say_what_precision_costs(
        compare::run_config(comparison, comparison.mechanisms.front(), comparison.settings.seeds.front()),
        tasks.of(comparison.mechanisms.front().name));
  comparison.machine = compare::this_machine();
  comparison.machine.workers = workers.count > 1 ? workers.count : 0;
  comparison.machine.device = comparison.configuration.training.device;
  comparison.machine.device_name = nn::product_name(comparison.machine.device);
  if (comparison.configuration.training.multiplies_bfloat16())
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
  if (workers.count > 1)
    fmt::print(stderr, "{} of {} each; `cogwheel compare --join {}` adds one\n",
               pages::counted(workers.count, "worker"), pages::counted(workers.threads, "thread"),
               shell_word(folder.path().string()));

  return run_job(std::move(comparison), tasks, folder, workers, std::move(items), store, resume);
}

}  // namespace cogwheel::cli
