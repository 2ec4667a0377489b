// What one foreign architecture says to both directions: its configuration, the tensors of its models, and the files
// beside them. `import_run` and `export_run` do the rest, the same for all.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/interchange/tensor_table.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::interchange {

// A foreign folder read as a run, but for its weights.
struct ForeignModel {
  runs::RunConfig config;
  std::vector<runs::RunFile> files = {};
  std::vector<std::string> notes = {};  // in a line each, what is not the same here
};

// The model of a run as its architecture is given it.
struct ModelToWrite {
  runs::RunConfig config;
  NamedTensors weights;       // all parameters, by their names here
  std::filesystem::path run;  // a folder with the files that the run keeps
};

struct WrittenModel {
  std::vector<runs::RunFile> files = {};
  std::vector<std::string> notes = {};  // in a line each, what is not the same there
};

struct Architecture {
  std::string_view name;  // as `architectures` of config.json says it
  std::string_view summary;
  // Whether models with such options have the form of this architecture, whatever their mechanism.
  bool (*is)(const runs::ModelOptions& model);
  // Of a model of this form: a line about the first key by which it differs from what the architecture has; empty where
  // it has all.
  std::string (*lack)(const runs::ModelOptions& model);
  // The options must be checked.
  TensorTable (*tensors)(const runs::ModelOptions& model);
  // Reads the whole of `config`, but for `finish`, and other files of `folder`. Throws Error for what models here have
  // otherwise.
  ForeignModel (*read)(ForeignConfig& config, const std::filesystem::path& folder);
  // config.json and the other files. May add to the model what the architecture needs more, such as a token.
  WrittenModel (*write)(ModelToWrite& model);
  bool is_language_model = false;  // then `lack` has a line about those of every other form too
};

std::span<const Architecture> architectures();
// Throws Error that names the known ones and `what`.
const Architecture& find_architecture(std::string_view name, std::string_view what);
// The first that has such models, or that of the name, where one is given. Throws Error, after `what`, where none has
// them.
const Architecture& architecture_of(const runs::ModelOptions& model, std::string_view what, std::string_view name = {});

// The names of classes that a run keeps, and where a file has none, "0", "1", …
runs::RunFile class_names_file(const std::vector<std::string>& names, std::int64_t count);
// `id2label`, and `label2id` unless classes share a name.
void add_class_names(nlohmann::ordered_json& config, const std::vector<std::string>& names);

}  // namespace cogwheel::interchange
