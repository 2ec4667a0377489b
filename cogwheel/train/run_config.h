// config.toml: everything that a run was told.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/data/dataset.h"
#include "cogwheel/models/language_model_options.h"
#include "cogwheel/train/options.h"

namespace cogwheel {

struct DataOptions {
  std::vector<std::string> text;  // files and folders; none: Python's standard library
  std::string tokenizer = "character";
  std::int64_t byte_limit = 8 << 20;  // 0: none
  std::string sha256;                 // of the text; where given, other text is refused
};

struct RunConfig {
  std::string name = "run";
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

// The text that the config names, as tokens. `tokenizer`: of an earlier run, made from the text where null.
// Paths are relative to the working folder. `record`: of the text as it was (data/text_record.h), to say what has
// changed where it is another.
std::shared_ptr<const Dataset> load_dataset(const RunConfig& config,
                                            std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                                            const std::filesystem::path& record = {});

// With what the data decides filled in, and paths that hold from any folder: what a run writes down of itself.
RunConfig completed(RunConfig config, const Dataset& data);

}  // namespace cogwheel
