#include "cogwheel/compare/plan/row_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "cogwheel/compare/plan/matching.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/plan/rows.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/forecast/step_memory.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/training/learned_parameters.h"
#include "cogwheel/runs/training/training_run.h"

namespace cogwheel::compare {
namespace {

// The configuration that all runs share, with the baseline's mechanism in the place of the default one, which the task
// of these data may not have; unless the baseline has a model of its own.
runs::RunConfig baseline_configuration(const Comparison& comparison) {
  const MechanismPlan* const base = comparison.plan(comparison.baseline);
  if (sets_keys_of(*base, "task.model=")) return shared_configuration(comparison);
  return row_configuration(shared_configuration(comparison), {.name = base->mechanism()});
}

[[noreturn]] void refuse_keys(const MechanismPlan& plan) {
  std::string keys;
  for (const std::string& assignment : plan.set)
    if (assignment.starts_with("task.")) keys += (keys.empty() ? "" : ", ") + assignment;
  throw UsageError(expected_got("--variant " + plan.name, "keys that leave what is measured as it is", keys));
}

// Throws UsageError where the row's task measures anything else than the shared one: other items, or in another way.
void expect_measured_alike(const Comparison& comparison, const MechanismPlan& plan, const RowTasks& tasks) {
  const runs::RunConfig shared = tasks.shared()->completed(baseline_configuration(comparison));
  const auto measured = [&](const runs::Task& task) {
    const std::shared_ptr<torch::nn::Module> model = runs::make_model(shared.model);
    task.initialize(*model, 1);
    return task.evaluate(*model, shared.training, runs::EvaluationPart::curve, nullptr);
  };
  const runs::Task& own = *tasks.of(plan.name);
  const auto problems = [&](const runs::Task& task) { return task.measured_problems(shared.model, shared.training); };
  const auto same_problems = [&] {
    const std::string asked = problems(own);
    return asked == problems(*tasks.shared()) && (!asked.empty() || measured(own) == measured(*tasks.shared()));
  };
  if (own.description().measures == tasks.shared()->description().measures && same_problems()) return;
  refuse_keys(plan);
}

// Throws UsageError where a row reads the data in other windows than all do.
void expect_same_windows(const Comparison& comparison, const MechanismPlan& plan, const runs::Task& task) {
  const runs::RunConfig config = run_config(comparison, plan, comparison.settings.seeds.front());
  const std::int64_t window = task.data(config.model, config.training).window;
  if (window != comparison.data.window)
    throw UsageError(expected_got(
        "--variant " + plan.name,
        fmt::format("keys that leave the window of {} {}s as it is", comparison.data.window, comparison.data.item()),
        fmt::format("one of {}", window)));
}

// The options of the task as the row completes them, where the shared ones differ: paths are absolute then, and hashes
// are there.
void record_task_keys(MechanismPlan& plan, const runs::TaskOptions& shared, const runs::TaskOptions& own) {
  std::erase_if(plan.set, [](const std::string& assignment) { return assignment.starts_with("task."); });
  for (const auto& [key, value] : own.values) {
    const auto before = shared.values.find(key);
    if (before != shared.values.end() && before->second == value) continue;
    const std::string text = std::visit(
        [](const auto& each) {
          if constexpr (std::is_same_v<std::decay_t<decltype(each)>, std::string>)
            return each;
          else
            return fmt::format("{}", each);
        },
        value);
    plan.set.push_back(fmt::format("task.{}={}", key, text));
  }
}

// Fills in widths, heads and parameters of the rows that lack them, which depend on the data: their vocabulary, say.
void match_models(Comparison& comparison, const RowTasks& tasks) {
  const auto count = [&](const runs::ModelOptions& model) { return runs::parameter_count(model); };
  const auto completed = [&](const MechanismPlan& plan) {
    return tasks.of(plan.name)->completed(row_configuration(shared_configuration(comparison), plan)).model;
  };
  const auto target = [&](const MechanismPlan& plan) {
    MechanismPlan base = *comparison.plan(comparison.base_of(plan.name));
    base.feed_forward = 0;
    return count(completed(base));
  };
  for (MechanismPlan& plan : comparison.mechanisms) {
    if (plan.parameters != 0) continue;
    runs::ModelOptions model = completed(plan);
    runs::check(model);
    plan.parameters_unmatched = count(model);
    if (comparison.match == "parameters") model = match_parameters(model, target(plan), count);
    plan.heads = runs::output_heads(model);
    plan.feed_forward = runs::balanced_width(model);
    plan.parameters = count(model);
    if (!plan.series.empty()) plan.block_parameters = runs::block_parameter_count(model);
  }
}

// The tasks of the rows that set keys of their own, of a comparison whose data are known.
void load_own_tasks(Comparison& comparison, RowTasks& tasks, const std::filesystem::path& folder) {
  for (MechanismPlan& plan : comparison.mechanisms) {
    if (!sets_keys_of(plan, "task.")) continue;
    const runs::RunConfig config = row_configuration(shared_configuration(comparison), plan);
    const std::shared_ptr<const runs::Task> task = runs::make_task(config, folder);
    const bool is_new = plan.parameters == 0;
    // Of another vocabulary no model could be completed.
    if (is_new && task->data(config.model, config.training).vocabulary != comparison.data.vocabulary) refuse_keys(plan);
    if (is_new) record_task_keys(plan, comparison.configuration.task, task->completed(config).task);
    tasks.set(plan.name, task->limited(comparison.data.evaluated_tokens));
    if (is_new) expect_measured_alike(comparison, plan, tasks);
  }
}

}  // namespace

RowTasks load_tasks(Comparison& comparison, const std::filesystem::path& folder) {
  runs::RunConfig config = baseline_configuration(comparison);
  const std::shared_ptr<const runs::Task> task = runs::make_task(config, folder);
  config.task = task->completed(config).task;
  comparison.configuration = shared_part(config);
  comparison.task = task->description();

  const runs::DataFacts recorded = comparison.data;
  runs::DataFacts& data = comparison.data = task->data(config.model, config.training);
  const auto expect = [](const char* name, std::int64_t before, std::int64_t got) {
    if (before != 0 && before != got)
      throw Error(
          expected_got(fmt::format("results.json: data.{}", name), std::to_string(got), std::to_string(before)));
  };
  expect("bytes", recorded.bytes, data.bytes);
  expect("vocabulary", recorded.vocabulary, data.vocabulary);
  expect("train_tokens", recorded.train_tokens, data.train_tokens);
  expect("held_out_tokens", recorded.held_out_tokens, data.held_out_tokens);
  const std::int64_t window = data.window;
  const std::int64_t max_tokens = data.evaluated_tokens;  // whole windows of the held-out part
  data.evaluated_tokens = recorded.evaluated_tokens;
  if (data.evaluated_tokens == 0)
    data.evaluated_tokens =
        std::min(max_tokens, find_preset(comparison.settings.preset).evaluated_tokens / window * window);
  if (data.evaluated_tokens > max_tokens || data.evaluated_tokens % window != 0)
    throw Error(expected_got("results.json: data.evaluated_tokens",
                             fmt::format("a multiple of {} below {}", window, data.held_out_tokens),
                             std::to_string(data.evaluated_tokens)));
  const std::shared_ptr<const runs::Task> limited = task->limited(data.evaluated_tokens);
  data.curve_tokens = limited->data(config.model, config.training).curve_tokens;
  RowTasks tasks(limited);
  load_own_tasks(comparison, tasks, folder);
  match_models(comparison, tasks);
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const runs::Task& own = *tasks.of(plan.name);
    expect_same_windows(comparison, plan, own);
    const runs::RunConfig of_row = own.completed(run_config(comparison, plan, comparison.settings.seeds.front()));
    runs::expect_trainable(of_row);
    runs::expect_learned(of_row, own);
    // A task that was begun is also read without what its runs begin with, such as a teacher.
    const auto is_to_do = [&](std::int64_t seed) { return comparison.is_to_do(plan.name, seed); };
    if (!std::ranges::any_of(comparison.settings.seeds, is_to_do)) continue;
    if (!folder.empty()) own.initialize(*runs::make_model(of_row.model), of_row.training.seed);
    runs::expect_memory_for_step(of_row, own);
  }
  return tasks;
}

}  // namespace cogwheel::compare
