#include "cogwheel/configuration/config_table.h"

#include <utility>
#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"

namespace cogwheel {

namespace {

const std::string task_prefix = "task.";

std::vector<ConfigField> model_fields(LanguageModelOptions& model, std::string& definition) {
  return {
      {"model.form", &model},
      {"model.mechanism", &model.mechanism},
      {"model.definition", &definition},
      {"model.recurrent_layer", &model.recurrent_layer},
      {"model.negative_eigenvalues", &model.negative_eigenvalues},
      {"model.first_softmax_layers", &model.first_softmax_layers},
      {"model.last_softmax_layers", &model.last_softmax_layers},
      {"model.first_lambda_depth", &model.first_lambda_depth},
      {"model.vocabulary", &model.vocabulary},
      {"model.context", &model.context},
      {"model.layers", &model.layers},
      {"model.heads", &model.heads},
      {"model.key_value_heads", &model.key_value_heads},
      {"model.width", &model.width},
      {"model.feed_forward", &model.feed_forward},
      {"model.activation", &model.activation},
      {"model.norm", &model.norm},
      {"model.position", &model.position},
      {"model.rotary_base", &model.rotary_base},
      {"model.bias", &model.bias},
      {"model.tied_head", &model.tied_head},
      {"model.dropout", &model.dropout},
  };
}

std::vector<ConfigField> model_fields(SequenceToSequenceOptions& model, std::string& definition) {
  return {
      {"model.mechanism", &model.mechanism},
      {"model.definition", &definition},
      {"model.vocabulary", &model.vocabulary},
      {"model.context", &model.context},
      {"model.layers", &model.layers},
      {"model.heads", &model.heads},
      {"model.width", &model.width},
      {"model.feed_forward", &model.feed_forward},
      {"model.cell", &model.cell},
      {"model.radius", &model.radius},
      {"model.input_feeding", &model.input_feeding},
      {"model.tied_embeddings", &model.tied_embeddings},
      {"model.dropout", &model.dropout},
  };
}

std::vector<ConfigField> model_fields(HandwritingOptions& model, std::string& definition) {
  return {
      {"model.mechanism", &model.mechanism},   {"model.definition", &definition},
      {"model.vocabulary", &model.vocabulary}, {"model.context", &model.context},
      {"model.layers", &model.layers},         {"model.heads", &model.heads},
      {"model.width", &model.width},           {"model.mixtures", &model.mixtures},
      {"model.curves", &model.curves},         {"model.dropout", &model.dropout},
  };
}

// What models have in common in which every token sees every other.
std::vector<ConfigField> encoder_layer_fields(EncoderLayerOptions& model, std::string& definition) {
  return {
      {"model.mechanism", &model.mechanism},
      {"model.definition", &definition},
      {"model.first_softmax_layers", &model.first_softmax_layers},
      {"model.last_softmax_layers", &model.last_softmax_layers},
      {"model.first_lambda_depth", &model.first_lambda_depth},
      {"model.vocabulary", &model.vocabulary},
      {"model.context", &model.context},
      {"model.layers", &model.layers},
      {"model.heads", &model.heads},
      {"model.width", &model.width},
      {"model.feed_forward", &model.feed_forward},
      {"model.position", &model.position},
      {"model.dropout", &model.dropout},
  };
}

std::vector<ConfigField> with(std::vector<ConfigField> fields, const std::vector<ConfigField>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::vector<ConfigField> model_fields(EncoderOptions& model, std::string& definition) {
  return with(encoder_layer_fields(model, definition),
              {{"model.segments", &model.segments}, {"model.classes", &model.classes}});
}

std::vector<ConfigField> model_fields(VisionTransformerOptions& model, std::string& definition) {
  return with(encoder_layer_fields(model, definition), {{"model.image_size", &model.image_size},
                                                        {"model.channels", &model.channels},
                                                        {"model.patch", &model.patch},
                                                        {"model.pooling", &model.pooling}});
}

std::vector<ConfigField> model_fields(UVitOptions& model, std::string& definition) {
  return with(encoder_layer_fields(model, definition), {{"model.image_size", &model.image_size},
                                                        {"model.channels", &model.channels},
                                                        {"model.patch", &model.patch},
                                                        {"model.condition_width", &model.condition_width},
                                                        {"model.condition_tokens", &model.condition_tokens}});
}

}  // namespace

std::vector<ConfigField> config_fields(RunConfig& config) {
  TaskOptions& task = config.task;
  DataOptions& data = config.data;
  TrainingOptions& training = config.training;
  std::vector<ConfigField> fields = {{"name", &config.name}, {"task.name", &task.name}};
  for (auto& [key, value] : task.values) fields.push_back({task_prefix + key, &value});
  const auto append = [&fields](const std::vector<ConfigField>& more) { fields = with(std::move(fields), more); };
  append({
      {"data.text", &data.text},
      {"data.tokenizer", &data.tokenizer},
      {"data.byte_limit", &data.byte_limit},
      {"data.sha256", &data.sha256},
  });
  append(std::visit([&](auto& options) { return model_fields(options, config.definition); }, config.model));
  append({
      {"training.seed", &training.seed},
      {"training.device", &training.device},
      {"training.precision", &training.precision},
      {"training.steps", &training.steps},
      {"training.batch", &training.batch},
      {"training.learning_rate", &training.learning_rate},
      {"training.final_learning_rate", &training.final_learning_rate},
      {"training.warm_up", &training.warm_up},
      {"training.beta1", &training.beta1},
      {"training.beta2", &training.beta2},
      {"training.epsilon", &training.epsilon},
      {"training.weight_decay", &training.weight_decay},
      {"training.clip", &training.clip},
      {"training.ema", &training.ema},
      {"training.report_every", &training.report_every},
      {"training.evaluate_every", &training.evaluate_every},
      {"training.curve_tokens", &training.curve_tokens},
      {"training.checkpoint_every", &training.checkpoint_every},
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

}  // namespace cogwheel
