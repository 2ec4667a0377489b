#include "cogwheel/interchange/export_run.h"

#include <torch/nn/module.h>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/task.h"

namespace cogwheel::interchange {
namespace {

// The kind of folder in its marker, and all that may be written into it.
constexpr std::string_view export_kind = "export";
const std::vector<std::string> export_files{"config.json", "vocab.txt", "tokenizer_config.json",
                                            "preprocessor_config.json", foreign_weights_file};

}  // namespace

ExportedModel foreign_model(const runs::RunConfig& config, const NamedTensors& weights,
                            const std::filesystem::path& run) {
  const Architecture& architecture = architecture_of(config.model, run.string());
  ModelToWrite whole{config, weights, run};
  WrittenModel written = architecture.write(whole);
  return {.architecture = std::string(architecture.name),
          .weights = architecture.tensors(whole.config.model).to_theirs(whole.weights, run),
          .files = std::move(written.files),
          .notes = std::move(written.notes)};
}

void write_exported_model(const ExportedModel& model, const std::filesystem::path& folder, bool overwrite) {
  const auto lock = take_folder(folder, export_kind, overwrite);
  remove_files(folder, export_files);
  for (const runs::RunFile& file : model.files) write_file(folder / file.name, file.content);
  // transformers reads files only that say whose numbers they hold.
  NamedTensors weights;
  for (const OutgoingTensor& each : model.weights) weights[each.name] = each.numbers();
  runs::save_safetensors({.tensors = weights, .metadata = {{"format", "pt"}}}, folder / foreign_weights_file);
}

ExportedModel export_run(const runs::RunFolder& run, const std::filesystem::path& folder, bool overwrite) {
  const runs::RunConfig config = runs::load_config(run.config_path());
  architecture_of(config.model, run.path().string());
  const std::shared_ptr<torch::nn::Module> module = runs::make_model(config.model);
  runs::load_weights_of(*module, config, run);
  NamedTensors weights;
  for (const auto& parameter : module->named_parameters()) weights[parameter.key()] = parameter.value().detach();
  ExportedModel model = foreign_model(config, weights, run.path());
  write_exported_model(model, folder, overwrite);
  return model;
}

}  // namespace cogwheel::interchange
