#include "cogwheel/interchange/import_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/evaluate/foreign_file.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/export_run.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/nn/new_parameter.h"
#include "cogwheel/storage/weights.h"

namespace cogwheel {
namespace {

constexpr const char* conversion =
    "import sys, torch, safetensors.torch as s; w = torch.load(sys.argv[1], map_location='cpu'); "
    "s.save_file({k: v.clone() for k, v in w.items()}, sys.argv[2])";

NamedTensors read_weights(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / foreign_weights_file;
  if (!std::filesystem::exists(path) && std::filesystem::exists(folder / "pytorch_model.bin"))
    throw Error(
        expected_got(path.string(), "a safetensors file",
                     fmt::format("pytorch_model.bin alone, a pickle; to convert it where it is trusted, with the "
                                 "package safetensors: python3 -c \"{}\" pytorch_model.bin {}",
                                 conversion, foreign_weights_file)));
  return load_safetensors_or_say(path, std::string(conversion)).tensors;
}

// Of a file, where the options of a model would say how they were used.
void check_options(ModelOptions& model, const std::filesystem::path& path) {
  try {
    check(model);
  } catch (const UsageError& error) {
    throw Error(path.string() + ": " + error.what());
  }
  if (auto* vision = std::get_if<VisionTransformerOptions>(&model)) vision->context = vision->tokens();
  if (auto* u_vit = std::get_if<UVitOptions>(&model)) u_vit->context = u_vit->tokens();
}

// The table covers the model: its parameters, each in its shape.
void expect_whole(const NamedTensors& weights, const ModelOptions& options) {
  const PlaceParameters nowhere(at::kMeta);
  const auto parameters = make_foreign_model(options)->named_parameters();
  for (const auto& parameter : parameters) {
    const auto found = weights.find(parameter.key());
    if (found == weights.end() || found->second.sizes() != parameter.value().sizes())
      throw std::logic_error(expected_got("table of tensors", parameter.key(), "none of its shape"));
  }
  if (parameters.size() != weights.size())
    throw std::logic_error(expected_got("table of tensors", std::to_string(parameters.size()) + " parameters",
                                        std::to_string(weights.size())));
}

}  // namespace

ImportedModel read_foreign_model(const std::filesystem::path& folder) {
  ForeignConfig config(folder / config_file);
  const Architecture& architecture =
      find_architecture(config.architecture(), config.path().string() + ": architectures");
  ForeignModel model = architecture.read(config, folder);
  config.finish();
  check_options(model.config.model, config.path());
  ImportedModel imported{.architecture = std::string(architecture.name),
                         .config = std::move(model.config),
                         .weights = {},
                         .files = std::move(model.files),
                         .notes = std::move(model.notes)};
  imported.config.name = "imported";
  std::vector<std::string> left_out;
  imported.weights = architecture.tensors(imported.config.model)
                         .to_ours(read_weights(folder), folder / foreign_weights_file, left_out);
  expect_whole(imported.weights, imported.config.model);
  if (!left_out.empty())
    imported.notes.push_back(
        fmt::format("tensors that {} has no use for are left out: {}", architecture.name, fmt::join(left_out, ", ")));
  return imported;
}

RunFolder write_imported_run(const ImportedModel& imported, const std::filesystem::path& path, bool overwrite) {
  RunFolder folder = RunFolder::create(path, imported.config, imported.files, overwrite);
  save_weights(imported.weights, imported.config, folder.checkpoint_path());
  return folder;
}

}  // namespace cogwheel
