#include "cogwheel/runs/configuration/config_table.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::runs {

namespace {

const std::string task_prefix = "task.";

}  // namespace

std::vector<ConfigField> config_fields(RunConfig& config) {
  TaskOptions& task = config.task;
  DataOptions& data = config.data;
  TrainingOptions& training = config.training;
  std::vector<ConfigField> fields = {{"name", &config.name}, {"task.name", &task.name}};
  for (auto& [key, value] : task.values) fields.push_back({task_prefix + key, &value});
  const auto append = [&fields](const std::vector<ConfigField>& more) {
    fields.insert(fields.end(), more.begin(), more.end());
  };
  append({
      {"data.text", &data.text, ReadBy::tasks_on_text},
      {"data.tokenizer", &data.tokenizer, ReadBy::tasks_on_text},
      {"data.vocabulary", &data.vocabulary, ReadBy::byte_pairs},
      {"data.byte_limit", &data.byte_limit},  // comparisons of other tasks record 0
      {"data.sha256", &data.sha256},
      {"data.corpus", &data.corpus, ReadBy::tasks_on_text},
      {"data.weights", &data.weights, ReadBy::several_corpora},
      {"data.packing", &data.packing, ReadBy::corpora},
      {"data.held_out_tokens", &data.held_out_tokens, ReadBy::corpora},
  });
  for (const ConfigField& field : config_fields(config.model)) {
    fields.push_back(field);
    if (field.key == "model.mechanism") fields.push_back({"model.definition", &config.definition});
  }
  append({
      {"training.seed", &training.seed},
      {"training.device", &training.device},
      {"training.precision", &training.precision},
      {"training.steps", &training.steps},
      {"training.batch", &training.batch},
      {"training.micro_batches", &training.micro_batches},
      {"training.recompute", &training.recompute},
      {"training.optimizer", &training.optimizer},
      {"training.learning_rate", &training.learning_rate},
      {"training.final_learning_rate", &training.final_learning_rate},
      {"training.schedule", &training.schedule},
      {"training.warm_up", &training.warm_up},
      {"training.decay", &training.decay},
      {"training.beta1", &training.beta1},
      {"training.beta2", &training.beta2},
      {"training.epsilon", &training.epsilon},
      {"training.momentum", &training.momentum},
      {"training.weight_decay", &training.weight_decay},
      {"training.base_width", &training.base_width},
      {"training.clip", &training.clip},
      {"training.ema", &training.ema},
      {"training.frozen", &training.frozen},
      {"training.report_every", &training.report_every},
      {"training.evaluate_every", &training.evaluate_every},
      {"training.curve_tokens", &training.curve_tokens},
      {"training.checkpoint_every", &training.checkpoint_every},
      {"training.checkpoint_minutes", &training.checkpoint_minutes},
      {"training.keep_checkpoints", &training.keep_checkpoints},
      {"training.keep_best", &training.keep_best},
      {"training.sample_every", &training.sample_every, ReadBy::tasks_on_text},
      {"training.prompts", &training.prompts, ReadBy::tasks_on_text},
      {"training.spike_deviations", &training.spike_deviations},
      {"training.spike_returns", &training.spike_returns},
      {"parallel.context", &training.parallel_context},
      {"parallel.tensor", &training.parallel_tensor},
      {"parallel.divide_moments", &training.parallel_divide_moments},
  });
  return fields;
}

ConfigSlot find_slot(RunConfig& config, std::string_view key, std::string_view what) {
  std::vector<std::string> keys;
  for (const auto& field : config_fields(config)) {
    if (field.key == key) return field.slot;
    keys.push_back(field.key);
  }
  if (key.starts_with(task_prefix)) return &config.task.values[std::string(key.substr(task_prefix.size()))];
  throw UsageError(expected_got(std::string(what) + ": key", expected_names(key, keys), key));
}

}  // namespace cogwheel::runs
