#include "cogwheel/cli/training.h"

#include <fmt/format.h>

#include <system_error>
#include <variant>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/progress.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/count_text.h"
#include "cogwheel/runs/training/kept_checkpoints.h"
#include "cogwheel/runs/training/step_times.h"
#include "cogwheel/runs/training/train_in_folder.h"

namespace cogwheel::cli {
namespace {

// "held-out loss 1.2345, accuracy 0.9876".
std::string measured_text(const runs::TrainingRun& run) {
  std::string text;
  for (const runs::Measure& measure : run.task().description().measures)
    if (const double* value = runs::find_value(run.last_measured(), measure.name))
      text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", measure.title, *value);
  return text;
}

// "12 × 64 tokens", or "64 sentences".
std::string batch_text(const runs::TrainingRun& run) {
  const runs::TaskDescription& task = run.task().description();
  const std::int64_t window = run.task().data(run.model_options(), run.options()).window;
  return fmt::format("{} {}{}", run.options().batch, window > 1 ? fmt::format("× {} ", window) : "", task.counted);
}

}  // namespace

void train_and_report(runs::TrainingRun& run, const runs::RunFolder& folder, const runs::RunConfig& config) {
  const runs::TaskDescription& task = run.task().description();
  Progress progress(task.decisive().label, task.counted);
  progress.line(fmt::format("{}: {}, {} parameters, {} steps of {}, in {}", config.name,
                            runs::common(config.model).mechanism,
                            count_text(static_cast<double>(runs::parameter_count(config.model))), config.training.steps,
                            batch_text(run), folder.path().string()));
  if (const runs::TrainingOptions& training = config.training; training.warm_up >= training.steps)
    progress.line(fmt::format(
        "training.warm_up: {} of {} steps, so the learning rate rises to {:.3g} of {:.3g} and never falls",
        training.warm_up, training.steps, runs::learning_rate(training, training.steps - 1), training.learning_rate));
  const runs::TrainingStatus status =
      runs::train_in_folder(run, folder,
                            {.report = [&](const runs::StepReport& report) { progress.show(config.name, report); },
                             .warn = [&](const std::string& line) { progress.line("warning: " + one_line(line)); },
                             .stop = &stop_flag()});
  progress.clear();
  const std::string path = folder.path().string();
  switch (status) {
    case runs::TrainingStatus::non_finite:
      throw runs::NonFiniteLoss(run.problem() + "; the last good checkpoint is in " + path);
    case runs::TrainingStatus::spike:
      throw runs::LossSpike(
          expected_got("training.spike_returns",
                       fmt::format("at most {} spikes of the loss or gradient", run.options().spike_returns),
                       "another at " + run.problem() + "; the last good checkpoint is in " + path));
    case runs::TrainingStatus::stopped:
      throw Interrupted(fmt::format("interrupted at step {} of {}; `cogwheel resume {}` continues", run.steps_done(),
                                    run.options().steps, path));
    case runs::TrainingStatus::finished:
      fmt::print("{} after {} steps, {} of training, in {}\n", measured_text(run), run.steps_done(),
                 duration_text(run.seconds()), path);
  }
}

void load_or_begin(runs::TrainingRun& run, const runs::RunFolder& folder, const std::set<std::string>& changed) {
  if (folder.has_checkpoint()) {
    for (const auto& line : runs::load_newest(run, folder, changed)) fmt::print(stderr, "warning: {}\n", line);
  } else {
    folder.write(run.task().assets());
    folder.write(run.task().records());
  }
}

void train_beside(runs::TrainingRun& run) {
  expect_all_ready(/*last=*/true);
  runs::train_beside_first(run, &stop_flag());
}

void expect_not_replaced(const runs::RunConfig& config, const std::filesystem::path& out) {
  for (const char* key : {"start", "teacher", "encoder"}) {
    const auto value = config.task.values.find(key);
    const auto* const path = value == config.task.values.end() ? nullptr : std::get_if<std::string>(&value->second);
    if (path == nullptr || path->empty()) continue;
    std::error_code problem;
    const std::filesystem::path run = std::filesystem::weakly_canonical(runs::RunFolder::open(*path).path(), problem),
                                whose = run.parent_path().parent_path();  // a comparison's
    if (std::filesystem::equivalent(run, out, problem) || std::filesystem::equivalent(whose, out, problem))
      throw UsageError(expected_got("--out", fmt::format("another folder than that of task.{}", key), out.string()));
  }
}

void say_how_data_are_taken(const runs::Task& task) {
  for (const std::string& note : task.notes()) fmt::print(stderr, "note: {}\n", one_line(note));
  if (const std::string left_out = task.left_out(); !left_out.empty())
    fmt::print(stderr, "left out of the text: {}\n", one_line(left_out));
}

void say_what_precision_costs(runs::RunConfig config, const std::shared_ptr<const runs::Task>& task) {
  constexpr std::int64_t few = 100;  // what would not pay for being measured, which takes four steps at least
  // Ranks that share a slice may be those of a model that one alone is too small for.
  if (config.training.steps < few || config.training.parallel_context * config.training.parallel_tensor > 1) return;
  config.training.learning_rate = config.training.final_learning_rate = 1e-9;  // nothing diverges
  const double cost = runs::cost_of_precision(config.model, config.training, task);
  if (const std::string note = runs::precision_note(config.training.precision, cost); !note.empty())
    fmt::print(stderr, "note: {}\n", note);
}

}  // namespace cogwheel::cli
