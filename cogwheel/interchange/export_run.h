// The model of a run, as another program reads it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "cogwheel/interchange/tensor_table.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::interchange {

inline constexpr const char* foreign_weights_file = "model.safetensors";

struct ExportedModel {
  std::string architecture;
  std::vector<OutgoingTensor> weights;  // by their names, in the order of their layers
  std::vector<runs::RunFile> files;
  std::vector<std::string> notes = {};  // in a line each, what is not the same there
};

// `weights`: the parameters of the model; `run`: a folder with the files that the run keeps, its tokenizer and the
// names of its classes. Throws Error where the model has what no architecture knows, such as attention without softmax.
ExportedModel foreign_model(const runs::RunConfig& config, const NamedTensors& weights,
                            const std::filesystem::path& run);

// Writes config.json, model.safetensors and, as the architecture has them, vocab.txt, tokenizer_config.json or
// preprocessor_config.json: each completely or not at all. The weights are the averaged ones where the run has them.
// Throws UsageError where `folder` is not empty, unless it holds an export and `overwrite` is set.
ExportedModel export_run(const runs::RunFolder& run, const std::filesystem::path& folder, bool overwrite = false);

// The second half of it.
void write_exported_model(const ExportedModel& model, const std::filesystem::path& folder, bool overwrite = false);

}  // namespace cogwheel::interchange
