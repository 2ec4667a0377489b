#include "cogwheel/runs/training/width_scaling.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/core/error.h"
#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/nn/mixers/attention_layer.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/runs/model_entry.h"

namespace cogwheel::runs {
namespace {

double width_ratio(const RunConfig& config) {
  return static_cast<double>(common(config.model).width) / static_cast<double>(config.training.base_width);
}

std::int64_t rows_of(const at::Tensor& parameter) { return parameter.size(0); }

// All rows alike.
void scale_all(WidthScaling& scaling, const std::string& name, const at::Tensor& parameter, double initial,
               double rate) {
  scaling[name] = {{0, rows_of(parameter), initial, rate}};
}

// Multiplies the factors of the first `count` rows, before which there are none; the others keep theirs.
void scale_first_rows(WidthScaling& scaling, const std::string& name, const at::Tensor& parameter, std::int64_t count,
                      double factor) {
  const auto there = scaling.find(name);
  const ScaledRows whole = there == scaling.end() ? ScaledRows{0, rows_of(parameter)} : there->second.front();
  std::vector<ScaledRows> parts{{0, count, whole.initial * factor, whole.rate * factor}};
  if (count < whole.count) parts.push_back({count, whole.count - count, whole.initial, whole.rate});
  scaling[name] = std::move(parts);
}

void scale_attention(WidthScaling& scaling, const std::string& name, const nn::AttentionLayerImpl& layer,
                     double head_ratio) {
  // Queries come first, then keys that are not queries.
  std::string projection;
  std::int64_t rows = 0;
  for (const nn::Projection& each : layer.projections())
    if (each.role == nn::ProjectionRole::query || each.role == nn::ProjectionRole::key) {
      projection = each.module;
      rows = std::max(rows, each.first + each.size());
    }
  const double of_scores = std::pow(head_ratio, -0.25), of_lambda = std::pow(head_ratio, -0.5);
  const auto parameters = layer.named_parameters();
  const bool normed = parameters.contains("query_norm");
  for (const auto& parameter : parameters) {
    const std::string& key = parameter.key();
    const std::string full = name + "." + key;
    if (key == "query_norm" || key == "key_norm")
      scale_all(scaling, full, parameter.value(), of_scores, of_scores);
    else if (key.starts_with("lambda_"))
      scale_all(scaling, full, parameter.value(), of_lambda, of_lambda);
    else if (!normed && key.starts_with(projection + "."))
      scale_first_rows(scaling, full, parameter.value(), rows, of_scores);
  }
}

}  // namespace

void expect_scalable(const RunConfig& config) {
  if (config.training.base_width == 0) return;
  const auto refuse = [&](const std::string& expected) {
    throw UsageError(expected_got("training.base_width", expected, std::to_string(config.training.base_width)));
  };
  if (config.model.entry().norm_before_head.empty()) refuse("0: the task " + config.task.name + " has no such model");
  for (const std::string& name : names_of_pattern(common(config.model).mechanism))
    if (const Mechanism* mechanism = mechanism_or_null(name); mechanism != nullptr && mechanism->recurrent() != nullptr)
      refuse("0 with " + name + ", a mechanism with a state");
}

WidthScaling width_scaling(const RunConfig& config, const torch::nn::Module& model) {
  WidthScaling scaling;
  if (config.training.base_width == 0 || config.training.base_width == common(config.model).width) return scaling;
  const double ratio = width_ratio(config);
  for (const auto& block : model.named_modules()) {
    if (block.value()->as<nn::TransformerBlockImpl>() == nullptr) continue;
    const auto modules = block.value()->named_modules(block.key());
    for (const auto& layer : modules)
      if (const auto* linear = layer.value()->as<nn::LinearImpl>())
        scale_all(scaling, layer.key() + ".weight", linear->weight(), 1 / std::sqrt(ratio), 1 / ratio);
    for (const auto& layer : modules)
      if (const auto* attention = layer.value()->as<nn::AttentionLayerImpl>(); attention != nullptr)
        scale_attention(scaling, layer.key(), *attention, attention->head_dim_follows_width() ? ratio : 1);
  }
  const std::string norm(config.model.entry().norm_before_head);
  for (const auto& parameter : model.named_parameters())
    if (parameter.key().starts_with(norm + "."))
      scale_all(scaling, parameter.key(), parameter.value(), 1 / ratio, 1 / ratio);
  return scaling;
}

void scale_first_values(const WidthScaling& scaling, const RunConfig& config, torch::nn::Module& model) {
  const auto start = config.task.values.find("start");
  const auto* const path = start == config.task.values.end() ? nullptr : std::get_if<std::string>(&start->second);
  if (path != nullptr && !path->empty()) return;
  const torch::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  for (const auto& [name, parts] : scaling)
    for (const ScaledRows& rows : parts)
      if (rows.initial != 1) parameters[name].narrow(0, rows.first, rows.count).mul_(rows.initial);
}

}  // namespace cogwheel::runs
