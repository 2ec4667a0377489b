// A task of drawn sequences with a small model of its own.
#pragma once
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::synthetic {

using Values = std::map<std::string, runs::ConfigValue>;
using Numbers = std::vector<std::int64_t>;

inline runs::RunConfig config_of(const std::string& task, Values values, std::int64_t context = 64) {
  runs::RunConfig config;
  config.task = {task, std::move(values)};
  config.model.as<language::LanguageModelOptions>().context = context;
  config.model.as<language::LanguageModelOptions>().layers = 1;
  config.model.as<language::LanguageModelOptions>().heads = 2;
  config.model.as<language::LanguageModelOptions>().width = 16;
  config.training.batch = 64;
  return config;
}

struct Made {
  explicit Made(const runs::RunConfig& config)
      : training(config.training),
        task(runs::make_task(config)),
        completed(task->completed(config)),
        model(runs::make_model(completed.model)) {}
  runs::Batch batch(std::int64_t step = 0) const {
    return task->batch(*model, training, {step, step * training.batch});
  }

  runs::TrainingOptions training;
  std::shared_ptr<const runs::Task> task;
  runs::RunConfig completed;
  std::shared_ptr<torch::nn::Module> model;
};

inline Numbers row_of(const at::Tensor& all, std::int64_t row) {
  const auto* first = all.data_ptr<std::int64_t>() + row * all.size(1);
  return {first, first + all.size(1)};
}

}  // namespace cogwheel::tasks::synthetic
