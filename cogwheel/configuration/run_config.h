// config.toml: everything that a run was told.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cogwheel/configuration/training_options.h"
#include "cogwheel/models/language_model_options.h"

namespace cogwheel {

struct DataOptions {
  std::vector<std::string> text;  // files and folders; none: Python's standard library
  std::string tokenizer = "character";
  std::int64_t byte_limit = 8 << 20;  // 0: none
  std::string sha256;                 // of the text; where given, other text is refused
};

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

struct TaskOptions {
  std::string name = "language_modelling";
  // The task's own, [task] key = value, which it checks and completes (tasks/task_options.h).
  std::map<std::string, ConfigValue> values = {};
};

struct RunConfig {
  std::string name = "run";
  TaskOptions task;
  DataOptions data;
  LanguageModelOptions model;
  TrainingOptions training;
  // Of a mechanism that a user brought, what brings it again (authoring.h); empty for a built-in one.
  std::string definition = {};
};

// Keys that are left out keep their defaults. Throws UsageError for a key that is unknown (with the nearest names), of
// the wrong type or out of range, naming `what`; Error where the file cannot be read.
RunConfig parse_config(std::string_view toml, std::string_view what = "config");
RunConfig load_config(const std::filesystem::path& path);

// Overrides as on the command line, "training.steps=100", in their order. They are judged together: a width and the
// heads that divide it may come one after the other. Where one is refused, none applies.
void set_options(RunConfig& config, const std::vector<std::string>& assignments);

// Every key, with its value.
std::string to_toml(const RunConfig& config);

}  // namespace cogwheel
