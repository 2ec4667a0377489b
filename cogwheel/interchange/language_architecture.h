// What the language models of transformers have in common, in both directions.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::interchange {

using tasks::language::LanguageModelOptions;

// Null for the options of another topology.
const LanguageModelOptions* language_options(const runs::ModelOptions& model);

// Finds the first key by which a model differs from what an architecture has.
class HeldOptions {
 public:
  HeldOptions(const LanguageModelOptions& options, std::string_view architecture)
      : options_(options), architecture_(architecture) {}

  template <class Value>
  void expect(std::string_view key, const Value& value, const std::vector<Value>& allowed) {
    if (!lack_.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string texts;
    for (const Value& each : allowed) texts += (texts.empty() ? "" : " or ") + text(each);
    refuse(key, texts, text(value));
  }
  // The same mechanism in every layer.
  void expect_mechanism(const std::string& name);
  void refuse(std::string_view key, std::string_view expected, std::string_view got);

  // A line that names the key; empty where the architecture holds the model.
  const std::string& lack() const { return lack_; }

 private:
  static std::string text(const std::string& value) { return value; }
  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string text(std::int64_t value) { return std::to_string(value); }

  const LanguageModelOptions& options_;
  std::string_view architecture_;
  std::string lack_;
};

// ε as models here have it, whether it is given or that of the kind; and the other way, 0 where it is that of the kind.
double used_norm_epsilon(const LanguageModelOptions& options);
double used_head_norm_epsilon(const LanguageModelOptions& options);
void set_norm_epsilon(LanguageModelOptions& options, double epsilon);
void set_head_norm_epsilon(LanguageModelOptions& options, double epsilon);

// Skips the keys that say nothing about what a language model computes, and those that the tokenizer's reader reads.
void skip_language_keys(ForeignConfig& config);

// A run of a language model with these options, and the tokenizer of the folder.
ForeignModel language_run(const LanguageModelOptions& options, const std::filesystem::path& folder,
                          std::vector<std::string> notes = {});

// The other way: `config`, an object to which names, vocabulary and tokens are added, and the files of the tokenizer.
// Where these need a row more than the model has, `model` gets it.
WrittenModel written_language_model(std::string_view architecture, std::string_view model_type,
                                    nlohmann::ordered_json config, ModelToWrite& model);

}  // namespace cogwheel::interchange
