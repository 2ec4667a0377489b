#include "cogwheel/interchange/import_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/foreign_weights.h"
#include "cogwheel/interchange/transformers_config.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::interchange {
namespace {

// Of a file, where the options of a model would say how they were used.
void check_options(runs::ModelOptions& model, const std::filesystem::path& path) {
  try {
    runs::check(model);
  } catch (const UsageError& error) {
    throw Error(path.string() + ": " + error.what());
  }
  runs::set_context_that_follows(model);
}

// The table covers the model: its parameters, each in its shape.
void expect_whole(const NamedTensors& weights, const runs::ModelOptions& options) {
  const nn::PlaceParameters nowhere(at::kMeta);
  const auto parameters = runs::make_model(options)->named_parameters();
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
  imported.weights = architecture.tensors(imported.config.model).to_ours(ForeignWeights(folder), left_out);
  expect_whole(imported.weights, imported.config.model);
  if (!left_out.empty())
    imported.notes.push_back(
        fmt::format("tensors that {} has no use for are left out: {}", architecture.name, fmt::join(left_out, ", ")));
  return imported;
}

runs::RunFolder write_imported_run(const ImportedModel& imported, const std::filesystem::path& path, bool overwrite) {
  return runs::RunFolder::create_whole(
      path, imported.config, imported.files,
      [&](const runs::RunFolder& folder) {
        runs::save_weights(imported.weights, imported.config, imported.files, folder.newest_path());
      },
      overwrite);
}

}  // namespace cogwheel::interchange
