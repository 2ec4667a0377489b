#include "cogwheel/compare/shared_configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cogwheel/compare/presets.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel {
namespace {

// Keys of the data, or that differ between runs.
constexpr const char* said_elsewhere[] = {"name",
                                          "data.text",
                                          "data.tokenizer",
                                          "data.byte_limit",
                                          "data.sha256",
                                          "model.mechanism",
                                          "model.definition",
                                          "model.vocabulary",
                                          "training.seed",
                                          "training.steps",
                                          "training.warm_up",
                                          "training.report_every",
                                          "training.evaluate_every",
                                          "training.checkpoint_every"};

// The settings that are recorded a second time, for readers.
void expect_settings(const Comparison::Settings& settings, const RunConfig& config) {
  const auto expect = [](const char* name, const auto& configured, const auto& got) {
    if (configured != got)
      throw Error(expected_got(fmt::format("results.json: settings.{}", name),
                               fmt::format("{}, as in its configuration", configured), fmt::format("{}", got)));
  };
  const ConstCommonOptions model = common(config.model);
  expect("layers", model.layers, settings.layers);
  expect("heads", model.heads, settings.heads);
  expect("width", model.width, settings.width);
  expect("context", model.context, settings.context);
  expect("batch", config.training.batch, settings.batch);
  if (const auto* options = config.model.get_if<LanguageModelOptions>()) {
    expect("recurrent_layer", options->recurrent_layer, settings.recurrent_layer);
    expect("negative_eigenvalues", options->negative_eigenvalues, settings.negative_eigenvalues);
  }
  expect("dropout", model.dropout, settings.dropout);
  expect("precision", config.training.precision, settings.precision);
  expect("learning_rate", config.training.learning_rate, settings.learning_rate);
  expect("final_learning_rate", config.training.final_learning_rate, settings.final_learning_rate);
}

}  // namespace

std::string shared_record(const RunConfig& config) {
  nlohmann::ordered_json record = to_json(config);
  for (const char* key : said_elsewhere) record.erase(key);
  // Of language models it follows from the others, and is balanced for each mechanism.
  if (config.model.get_if<LanguageModelOptions>() != nullptr) record.erase("model.feed_forward");
  for (const auto& [key, value] : record.items())
    if (value.is_string())
      if (const auto& text = value.get_ref<const std::string&>(); find_non_text(text) != std::string::npos)
        throw UsageError(expected_got(key, "text in UTF-8", code_point_text(text, find_non_text(text))));
  return record.dump();
}

bool is_shared(const RunConfig& config, std::string_view key) {
  return nlohmann::json::parse(shared_record(config)).contains(key);
}

RunConfig shared_configuration(const Comparison& comparison) {
  const Comparison::Settings& settings = comparison.settings;
  RunConfig config;
  if (!comparison.configuration.empty()) {
    config = config_from_json(nlohmann::ordered_json::parse(comparison.configuration), "results.json: configuration");
    expect_settings(settings, config);
  } else {
    // Written by an older version, which recorded only the settings: the rest is as in that version's presets, and
    // curves used everything.
    const Preset& preset = find_preset(settings.preset);
    config.model = preset.model;
    LanguageModelOptions& model = config.model.as<LanguageModelOptions>();
    model.layers = settings.layers;
    model.heads = settings.heads;
    model.width = settings.width;
    model.context = settings.context;
    model.dropout = settings.dropout;
    set_form(model, settings.form, "results.json: settings.form");
    config.training = preset.training;
    config.training.batch = settings.batch;
    config.training.precision = settings.precision;
    config.training.learning_rate = settings.learning_rate;
    config.training.final_learning_rate = settings.final_learning_rate;
    config.training.curve_tokens = 0;
  }
  config.data = {
      .text = comparison.data.text, .byte_limit = comparison.data.byte_limit, .sha256 = comparison.data.sha256};
  // Before the data is known, the configuration says which tokenizer was asked for; after, that of a text. It does not
  // say what the items of other tasks are.
  const std::vector<std::string> of_text = tokenizer_names();
  if (comparison.data.name.empty() ||
      std::find(of_text.begin(), of_text.end(), comparison.data.tokenizer) != of_text.end())
    config.data.tokenizer = comparison.data.tokenizer;
  if (std::int64_t* const vocabulary = common(config.model).vocabulary) *vocabulary = comparison.data.vocabulary;
  return config;
}

}  // namespace cogwheel
