#include "cogwheel/compare/record/shared_configuration.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/tasks/language/language_model_form.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::compare {
namespace {

// Keys of the data, or that differ between runs.
constexpr const char* said_elsewhere[] = {"name",
                                          "data.text",
                                          "data.corpus",
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
                                          "training.checkpoint_every",
                                          "training.checkpoint_minutes",
                                          "training.keep_checkpoints",
                                          "training.keep_best",
                                          "training.sample_every",
                                          "training.prompts"};

}  // namespace

nlohmann::ordered_json shared_record(const runs::RunConfig& config) {
  nlohmann::ordered_json record = runs::to_json(config);
  for (const char* key : said_elsewhere) record.erase(key);
  // Of language models it follows from the others unless it is given, and is balanced for each mechanism.
  if (const auto* model = config.model.get_if<tasks::language::LanguageModelOptions>();
      model != nullptr && model->feed_forward == 0)
    record.erase("model.feed_forward");
  for (const auto& [key, value] : record.items())
    if (value.is_string())
      if (const auto& text = value.get_ref<const std::string&>(); find_non_text(text) != std::string::npos)
        throw UsageError(expected_got(key, "text in UTF-8", code_point_text(text, find_non_text(text))));
  return record;
}

runs::RunConfig shared_part(const runs::RunConfig& config) {
  return runs::config_from_json(shared_record(config), "configuration");
}

bool is_shared(const runs::RunConfig& config, std::string_view key) { return shared_record(config).contains(key); }

runs::RunConfig shared_configuration(const Comparison& comparison) {
  runs::RunConfig config = comparison.configuration;
  config.data.text = comparison.data.text;
  config.data.corpus = comparison.data.corpus;
  config.data.byte_limit = comparison.data.byte_limit;
  config.data.sha256 = comparison.data.sha256;
  // Before the data is known, the configuration says which tokenizer was asked for; after, that of a text. It does not
  // say what the items of other tasks are.
  const std::vector<std::string> of_text = text::tokenizer_names();
  if (comparison.data.name.empty() ||
      std::find(of_text.begin(), of_text.end(), comparison.data.tokenizer) != of_text.end())
    config.data.tokenizer = comparison.data.tokenizer;
  if (std::int64_t* const vocabulary = runs::common(config.model).vocabulary) *vocabulary = comparison.data.vocabulary;
  return config;
}

std::string position_beside_form(const Comparison& comparison) {
  const auto* model = comparison.configuration.model.get_if<tasks::language::LanguageModelOptions>();
  if (model == nullptr) return "";
  tasks::language::LanguageModelOptions of_form;
  tasks::language::set_form(of_form, comparison.settings.form, "settings.form");
  return model->position == of_form.position ? "" : model->position;
}

}  // namespace cogwheel::compare
