#include "cogwheel/interchange/export_run.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/language_tokenizer.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::interchange {
namespace {

// The kind of folder in its marker, and all that may be written into it beside weights.
constexpr std::string_view export_kind = "export";
std::vector<std::string> files_beside_weights() {
  std::vector<std::string> names{config_file, modeling_file, "vocab.txt", "preprocessor_config.json"};
  names.insert(names.end(), exported_tokenizer_files.begin(), exported_tokenizer_files.end());
  return names;
}

bool is_temporary(const std::string& name) { return name.starts_with('.') && name.ends_with(unfinished_extension); }

// What an older export, whole or cut short, may have left.
std::vector<std::string> exported_names(const std::filesystem::path& folder) {
  const std::vector<std::string> others = files_beside_weights();
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entries(folder, problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    std::string name = entries->path().filename().string();
    if (is_temporary(name)) {  // ".<name>.<process>.part"
      name = name.substr(1, name.size() - 1 - std::string_view(unfinished_extension).size());
      name = name.substr(0, name.rfind('.'));
    }
    if (is_weights_file(name) || std::find(others.begin(), others.end(), name) != others.end()) names.push_back(name);
  }
  if (problem) throw Error(expected_got(folder.string(), "a folder that can be read", problem.message()));
  return names;
}

// The file itself: temporary ones of its name are those of this export.
void remove_older(const std::filesystem::path& path) {
  std::error_code problem;
  std::filesystem::remove(path, problem);
  if (problem) throw Error(expected_got(path.string(), "a file that can be removed", problem.message()));
}

// A configuration says of what type the weights are, where its architecture has a key for it.
std::string with_dtype(const std::string& config, std::string_view dtype) {
  auto json = nlohmann::ordered_json::parse(config);
  for (const char* key : {"dtype", "torch_dtype"})
    if (json.contains(key)) json[key] = dtype;
  return json.dump(2) + "\n";
}

// An option's value, where a file's name would say what the file has.
void expect_architecture(const std::string& name) {
  try {
    find_architecture(name, "export: --as");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

ExportedModel foreign_model(const runs::RunConfig& config, const NamedTensors& weights,
                            const std::filesystem::path& run, const std::string& as) {
  const Architecture& architecture = architecture_of(config.model, run.string(), as);
  ModelToWrite whole{config, weights, run};
  WrittenModel written = architecture.write(whole);
  return {.architecture = std::string(architecture.name),
          .weights = architecture.tensors(whole.config.model).to_theirs(whole.weights, run),
          .files = std::move(written.files),
          .notes = std::move(written.notes)};
}

void write_exported_model(const ExportedModel& model, const std::filesystem::path& folder,
                          const ExportOptions& options) {
  check(options.weights);
  const auto lock = take_folder(folder, export_kind, options.overwrite);
  const std::vector<std::string> older = exported_names(folder);
  remove_leftovers(folder, older);
  auto written = write_weights(model.weights, folder, options.weights);
  for (const bool is_config : {false, true})
    for (const runs::RunFile& file : model.files) {
      if ((file.name == config_file) != is_config) continue;
      written.push_back(std::make_unique<AtomicFile>(folder / file.name));
      written.back()->write(is_config ? with_dtype(file.content, torch_name(options.weights)) : file.content);
      written.back()->finish();
    }
  remove_older(folder / config_file);
  for (const std::string& name : older)
    if (std::none_of(written.begin(), written.end(), [&](const auto& file) { return file->path() == folder / name; }))
      remove_older(folder / name);
  for (const auto& file : written) file->commit();
}

ExportedModel export_run(const runs::RunFolder& run, const std::filesystem::path& folder,
                         const ExportOptions& options) {
  check(options.weights);
  expect_room(folder, export_kind, options.overwrite);
  if (!options.as.empty()) expect_architecture(options.as);
  const runs::RunConfig config = runs::load_config(run.config_path());
  architecture_of(config.model, run.path().string(), options.as);
  const std::shared_ptr<torch::nn::Module> module = runs::make_model(config.model);
  runs::load_weights_of(*module, config, run);
  NamedTensors weights;
  for (const auto& parameter : module->named_parameters()) weights[parameter.key()] = parameter.value().detach();
  ExportedModel model = foreign_model(config, weights, run.path(), options.as);
  write_exported_model(model, folder, options);
  return model;
}

}  // namespace cogwheel::interchange
