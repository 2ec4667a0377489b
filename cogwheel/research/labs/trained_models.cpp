#include "cogwheel/research/labs/trained_models.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/research/labs/one_thread.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"
#include "cogwheel/tasks/translation/toy_translation.h"

namespace cogwheel::labs {
namespace {

TrainedModel train_model(const LabModel& model, const std::function<void(const std::string&)>& say) {
  TrainedModel trained{.name = model.name,
                       .run = {model.config.model, model.config.training, runs::make_task(model.config)},
                       .curve = {.name = model.name, .x = {}, .y = {}, .points = false}};
  const std::string& measure = trained.run.task().description().decisive().name;
  runs::TrainingHooks hooks;
  hooks.report = [&](const runs::StepReport& report) {
    if (report.measured.empty()) return;
    trained.curve.x.push_back(static_cast<double>(report.step));
    trained.curve.y.push_back(*runs::find_value(report.measured, measure));
    say(fmt::format("{}: step {}/{}, held-out {:.4f}", model.name, report.step, report.steps, trained.curve.y.back()));
  };
  if (trained.run.train(hooks) != runs::TrainingStatus::finished)
    throw Error(model.name + ": " + trained.run.problem());
  trained.loss = *runs::find_value(trained.run.last_measured(), measure);
  return trained;
}

}  // namespace

runs::TrainingOptions training_options(const LabParameters& given, std::int64_t run) {
  runs::TrainingOptions options;
  options.steps = given.whole("steps");
  options.batch = given.whole("batch");
  options.learning_rate = given.number("learning_rate");
  options.final_learning_rate = options.learning_rate / 30;
  options.warm_up = std::min<std::int64_t>(100, options.steps / 10);
  options.seed = static_cast<std::uint64_t>(given.whole("seed") + run);
  options.report_every = options.evaluate_every = std::max<std::int64_t>(1, options.steps / evaluations_of_training);
  options.curve_tokens = 128;
  options.checkpoint_every = 0;
  return options;
}

std::vector<LabParameter> training_parameters(double steps, double batch, double learning_rate) {
  using enum LabParameter::Kind;
  return {{"steps", {steps}, {1, 1000000}, "of training"},
          {"batch", {batch}, {1, 4096}, "examples of a step"},
          {"learning_rate", {learning_rate}, {0, 1, true}, "the largest; it falls to a thirtieth as a cosine", real},
          {"seed", {1}, {0, 1e15}, "of the random numbers"}};
}

LabParameter seeds_parameter() {
  return {"seeds", {3}, {1, 100}, "runs, of seed, seed + 1, …; their spread gives the intervals"};
}

LabModel toy_translation(const std::string& name, tasks::translation::SequenceToSequenceOptions model,
                         std::int64_t distance, const LabParameters& given, std::int64_t run) {
  LabModel made{.name = name, .config = {}};
  model.context = tasks::translation::ToyLanguage{distance}.longest() + 1;
  made.config.task = {"translation", {{"distance", distance}, {"label_smoothing", 0.1}}};
  made.config.model = std::move(model);
  made.config.training = training_options(given, run);
  return made;
}

std::vector<TrainedModel> train_models(const std::vector<LabModel>& models, const LabHost& host) {
  std::vector<std::optional<TrainedModel>> trained(models.size());
  std::mutex mutex;
  side_by_side(std::ssize(models), host, [&](std::int64_t index) {
    const auto place = static_cast<std::size_t>(index);
    trained[place].emplace(train_model(models[place], [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      host.progress(line);
    }));
  });
  std::vector<TrainedModel> all;
  for (std::optional<TrainedModel>& each : trained) all.push_back(std::move(*each));
  return all;
}

void side_by_side(std::int64_t tasks, const LabHost& host, const std::function<void(std::int64_t)>& task) {
  const std::int64_t workers = std::min<std::int64_t>(host.executor.workers(), tasks);
  const OneThread one_thread;
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr problem;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t worker = 0; worker < workers; ++worker)
      threads.emplace_back([&] {
        at::init_num_threads();  // of this thread, as OneThread says
        try {
          for (std::int64_t index; (index = next.fetch_add(1)) < tasks;) task(index);
        } catch (...) {
          next = tasks;
          const std::lock_guard lock(mutex);
          if (!problem) problem = std::current_exception();
        }
      });
  }
  if (problem) std::rethrow_exception(problem);
}

}  // namespace cogwheel::labs
